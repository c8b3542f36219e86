// Cuts text into the pieces that BPE merges within: the `pre_tokenizer` of a
// tokenizer.json, run by PCRE2 with the meaning that Oniguruma (HF tokenizers)
// gives the same expression. Immutable; thread-safe.
#ifndef DICE_COMMON_TEXT_PRE_TOKENIZER_H_
#define DICE_COMMON_TEXT_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace dice {

// One compiled expression. Immutable; thread-safe.
class SplitRegex;

class PreTokenizer {
 public:
  // What happens to the stretches that the expression does not match.
  enum class Unmatched { kKeep, kDrop };

  PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // `spec` is tokenizer.json's `pre_tokenizer`. UNIMPLEMENTED names a type,
  // behaviour or expression that is not reproduced. nlohmann's exceptions pass
  // through: the loader turns them into a Status.
  static absl::StatusOr<PreTokenizer> FromJson(const nlohmann::json& spec);
  static PreTokenizer Qwen2();
  static PreTokenizer Gpt2();

  // Appends the pieces of `text`, views into it, in order. A stretch of bytes
  // that is not UTF-8 is a piece, and its neighbours end at it.
  void Split(absl::string_view text,
             std::vector<absl::string_view>* pieces) const;

 private:
  struct Step {
    std::unique_ptr<const SplitRegex> regex;
    Unmatched unmatched = Unmatched::kKeep;
  };
  absl::Status Add(const nlohmann::json& spec);
  absl::Status AddRegex(const std::string& pattern, Unmatched unmatched);
  void Apply(size_t step, absl::string_view text,
             std::vector<absl::string_view>* pieces) const;

  std::vector<Step> steps_;
};

}  // namespace dice

#endif  // DICE_COMMON_TEXT_PRE_TOKENIZER_H_
