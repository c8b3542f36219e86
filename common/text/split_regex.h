// A regular expression with Oniguruma's meaning, executed by PCRE2.
#ifndef DICE_COMMON_TEXT_SPLIT_REGEX_H_
#define DICE_COMMON_TEXT_SPLIT_REGEX_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

class SplitRegex {
 public:
  // UNIMPLEMENTED: syntax that the two engines read differently, by name.
  // INVALID_ARGUMENT: PCRE2 refuses it, with its reason and offset.
  static absl::StatusOr<std::unique_ptr<const SplitRegex>> Compile(
      const std::string& pattern);
  ~SplitRegex();
  SplitRegex(const SplitRegex&) = delete;
  SplitRegex& operator=(const SplitRegex&) = delete;

  // The first non-empty match at or after `from`, as [begin, end).
  // `text` must be valid UTF-8.
  std::optional<std::pair<size_t, size_t>> Find(absl::string_view text,
                                                size_t from) const;

 private:
  explicit SplitRegex(void* code) : code_(code) {}
  void* const code_;  // pcre2_code
};

}  // namespace dice

#endif  // DICE_COMMON_TEXT_SPLIT_REGEX_H_
