// A small tokenizer for CUDA C++: enough to find structure, not to parse.
#ifndef DICE_COMMON_TASKS_CPP_LEXER_H_
#define DICE_COMMON_TASKS_CPP_LEXER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

struct CppToken {
  enum class Kind { kWord, kPunctuation, kLiteral };
  Kind kind;
  size_t begin, end;  // bytes of the text
};

// Words, punctuation (one character, but <<< and >>> whole) and literals of
// `text`, in order. Comments and preprocessor lines are dropped. Never fails:
// what is unterminated ends with the text.
std::vector<CppToken> LexCpp(absl::string_view text);

// For each token that opens a bracket, the index of the one that closes it.
// INVALID_ARGUMENT at the first that does not match.
absl::StatusOr<std::vector<size_t>> MatchBrackets(
    absl::string_view text, const std::vector<CppToken>& tokens);

inline absl::string_view TextOf(absl::string_view text, const CppToken& t) {
  return text.substr(t.begin, t.end - t.begin);
}

}  // namespace dice

#endif  // DICE_COMMON_TASKS_CPP_LEXER_H_
