// Byte-level BPE, identical to HF `tokenizers` for the files it accepts.
// Immutable after loading; thread-safe.
#ifndef DICE_COMMON_TEXT_TOKENIZER_H_
#define DICE_COMMON_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Loads `dir`: tokenizer.json, else vocab.json + merges.txt
  // (+ added_tokens.json). NOT_FOUND: neither is there. UNIMPLEMENTED: a model,
  // normaliser or pre-tokeniser we do not reproduce, by name.
  // INVALID_ARGUMENT: malformed, with file and reason.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::string& dir);

  // Ids of `text` (any bytes). Added tokens are recognised.
  virtual std::vector<int32_t> Encode(absl::string_view text) const = 0;
  // Bytes of `ids`; unknown ids give nothing. The result need not be valid
  // UTF-8: a caller that shows it uses SanitizeUtf8.
  virtual std::string Decode(std::span<const int32_t> ids) const = 0;
  virtual std::optional<int32_t> TokenToId(absl::string_view token) const = 0;
  // 1 + the largest id.
  virtual int32_t vocab_size() const = 0;
};

// Each maximal invalid part becomes U+FFFD, as Python's errors="replace".
std::string SanitizeUtf8(absl::string_view bytes);

}  // namespace dice

#endif  // DICE_COMMON_TEXT_TOKENIZER_H_
