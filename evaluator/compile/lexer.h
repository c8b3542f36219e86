// Splits CUDA C++ source into tokens that keep their place in the text, so that
// rewriting can edit ranges and leave lines where they were.
#ifndef DICE_EVALUATOR_COMPILE_LEXER_H_
#define DICE_EVALUATOR_COMPILE_LEXER_H_

#include <string_view>
#include <vector>

namespace dice {

struct Token {
  enum class Kind {
    kIdentifier,
    kNumber,
    kString,     // string or character literal, raw ones too
    kPunct,      // one character, except ::
    kDirective,  // a whole preprocessor line with its continuations
  };
  Kind kind;
  size_t begin;  // offsets into the text
  size_t end;
  std::string_view text;

  bool Is(std::string_view s) const { return text == s; }
  bool IsIdentifier() const { return kind == Kind::kIdentifier; }
};

// Comments and white space make no token. Never fails: an unterminated literal
// or comment ends with the text. The tokens refer to `source`.
std::vector<Token> Lex(std::string_view source);

// The tokens after the # of a directive; offsets are those of the source.
std::vector<Token> LexDirective(const Token& directive);

// True when the text ends inside a comment, a string or a continued line, so
// that text put behind it would be read as part of it.
bool EndsInside(std::string_view source);

// Index of the token that closes the bracket at `open` ((, [ or {), or
// tokens.size() when nothing does.
size_t MatchingBracket(const std::vector<Token>& tokens, size_t open);

// True when (, [ and { are balanced and properly nested.
bool BracketsBalance(const std::vector<Token>& tokens);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_LEXER_H_
