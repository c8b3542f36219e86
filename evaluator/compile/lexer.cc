#include "evaluator/compile/lexer.h"

#include <cctype>
#include <string>

namespace dice {
namespace {

bool IsWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsWord(char c) {
  return IsWordStart(c) || std::isdigit(static_cast<unsigned char>(c));
}

class Lexer {
 public:
  // `line_start`: whether a # here would begin a directive.
  Lexer(std::string_view source, size_t at, size_t end, bool line_start)
      : source_(source), at_(at), end_(end), line_start_(line_start) {}

  std::vector<Token> Run() {
    while (at_ < end_) Step();
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < end_ ? source_[at_ + ahead] : '\0';
  }

  void Step() {
    const char c = Peek();
    if (c == '\n') {
      line_start_ = true;
      ++at_;
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\\') {
      ++at_;
    } else if (c == '/' && Peek(1) == '/') {
      at_ = LogicalLineEnd(at_);
    } else if (c == '/' && Peek(1) == '*') {
      const size_t close = source_.find("*/", at_ + 2);
      at_ = close == source_.npos || close + 2 > end_ ? end_ : close + 2;
    } else {
      Significant(c);
      line_start_ = false;
    }
  }

  void Significant(char c) {
    const size_t begin = at_;
    if (c == '#' && line_start_) {
      at_ = DirectiveEnd(at_);
      Add(Token::Kind::kDirective, begin);
    } else if (IsWordStart(c)) {
      while (at_ < end_ && IsWord(source_[at_])) ++at_;
      const std::string_view word = source_.substr(begin, at_ - begin);
      if (Peek() == '"' && (word == "R" || word == "u8R" || word == "LR" ||
                            word == "uR" || word == "UR")) {
        RawString();
        Add(Token::Kind::kString, begin);
      } else if ((Peek() == '"' || Peek() == '\'') &&
                 (word == "L" || word == "u8" || word == "u" || word == "U")) {
        Literal(Peek());
        Add(Token::Kind::kString, begin);
      } else {
        Add(Token::Kind::kIdentifier, begin);
      }
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' &&
                std::isdigit(static_cast<unsigned char>(Peek(1))))) {
      Number();
      Add(Token::Kind::kNumber, begin);
    } else if (c == '"' || c == '\'') {
      Literal(c);
      Add(Token::Kind::kString, begin);
    } else {
      at_ += c == ':' && Peek(1) == ':' ? 2 : 1;
      Add(Token::Kind::kPunct, begin);
    }
  }

  void Number() {
    while (at_ < end_) {
      const char c = source_[at_];
      const char before = at_ > 0 ? source_[at_ - 1] : '\0';
      const bool sign =
          (c == '+' || c == '-') &&
          (before == 'e' || before == 'E' || before == 'p' || before == 'P');
      const bool separator = c == '\'' && IsWord(Peek(1));
      if (!IsWord(c) && c != '.' && !sign && !separator) break;
      ++at_;
    }
  }

  void Literal(char quote) {
    ++at_;
    while (at_ < end_ && source_[at_] != quote && source_[at_] != '\n')
      at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ > end_) at_ = end_;
    if (at_ < end_ && source_[at_] == quote) ++at_;
  }

  void RawString() {
    const size_t open = source_.find('(', at_);
    if (open == source_.npos || open >= end_) {
      at_ = end_;
      return;
    }
    std::string close = ")";
    close += source_.substr(at_ + 1, open - at_ - 1);
    close += '"';
    const size_t found = source_.find(close, open);
    at_ = found == source_.npos ? end_ : std::min(end_, found + close.size());
  }

  // The newline that ends the line, continuations included.
  size_t LogicalLineEnd(size_t at) const {
    while (at < end_) {
      if (source_[at] == '\n') {
        size_t before = at;
        while (before > 0 && source_[before - 1] == '\r') --before;
        if (before == 0 || source_[before - 1] != '\\') return at;
      }
      ++at;
    }
    return end_;
  }

  // As LogicalLineEnd, but a // comment on the line is left to be skipped, and
  // a block comment may carry the directive over several lines.
  size_t DirectiveEnd(size_t at) const {
    const size_t line_end = LogicalLineEnd(at);
    for (size_t i = at; i + 1 < line_end; ++i) {
      if (source_[i] == '"') {
        for (++i; i < line_end && source_[i] != '"'; ++i)
          if (source_[i] == '\\') ++i;
      } else if (source_[i] == '/' && source_[i + 1] == '/') {
        return i;
      } else if (source_[i] == '/' && source_[i + 1] == '*') {
        const size_t close = source_.find("*/", i + 2);
        if (close == source_.npos) return end_;
        if (close >= line_end) return DirectiveEnd(close + 2);
        i = close + 1;
      }
    }
    return line_end;
  }

  void Add(Token::Kind kind, size_t begin) {
    tokens_.push_back({kind, begin, at_, source_.substr(begin, at_ - begin)});
  }

  const std::string_view source_;
  size_t at_;
  const size_t end_;
  bool line_start_;
  std::vector<Token> tokens_;
};

char Closer(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : '\0';
}

bool IsCloser(const Token& t) {
  return t.kind == Token::Kind::kPunct && (t.Is(")") || t.Is("]") || t.Is("}"));
}

bool IsOpener(const Token& t) {
  return t.kind == Token::Kind::kPunct && Closer(t.text[0]) != '\0';
}

}  // namespace

std::vector<Token> Lex(std::string_view source) {
  return Lexer(source, 0, source.size(), true).Run();
}

bool EndsInside(std::string_view source) {
  // A word on a line of its own stays the last token, or was swallowed.
  const std::string text = std::string(source) + "\nsentinel";
  const std::vector<Token> tokens = Lex(text);
  return tokens.empty() || !tokens.back().Is("sentinel") ||
         (tokens.size() > 1 &&
          tokens[tokens.size() - 2].kind == Token::Kind::kString &&
          tokens[tokens.size() - 2].text.back() != '"' &&
          tokens[tokens.size() - 2].text.back() != '\'');
}

std::vector<Token> LexDirective(const Token& directive) {
  std::vector<Token> tokens =
      Lexer(directive.text, 1, directive.text.size(), false).Run();
  for (Token& t : tokens) {
    t.begin += directive.begin;
    t.end += directive.begin;
  }
  return tokens;
}

size_t MatchingBracket(const std::vector<Token>& tokens, size_t open) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    if (IsOpener(tokens[i])) ++depth;
    if (IsCloser(tokens[i]) && --depth == 0) return i;
  }
  return tokens.size();
}

bool BracketsBalance(const std::vector<Token>& tokens) {
  std::vector<char> open;
  for (const Token& t : tokens) {
    if (IsOpener(t)) open.push_back(Closer(t.text[0]));
    if (!IsCloser(t)) continue;
    if (open.empty() || open.back() != t.text[0]) return false;
    open.pop_back();
  }
  return open.empty();
}

}  // namespace dice
