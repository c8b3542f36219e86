#include "common/tasks/cpp_lexer.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dice {
namespace {

bool WordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool WordChar(char c) {
  return WordStart(c) || std::isdigit(static_cast<unsigned char>(c));
}

class CppLexer {
 public:
  explicit CppLexer(absl::string_view text) : text_(text) {}

  std::vector<CppToken> Run() {
    while (at_ < text_.size()) Step();
    return std::move(out_);
  }

 private:
  bool Next(absl::string_view s) const {
    return absl::StartsWith(text_.substr(at_), s);
  }
  void To(size_t end) { at_ = std::min(end, text_.size()); }
  void Until(absl::string_view end) {
    const size_t found = text_.find(end, at_);
    To(found == absl::string_view::npos ? text_.size() : found + end.size());
  }
  void Emit(CppToken::Kind kind, size_t begin) {
    out_.push_back({kind, begin, at_});
  }

  // A preprocessor line with its continuations; comments in it may go on.
  void Directive() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (Next("\\\n")) {
        at_ += 2;
      } else if (Next("/*")) {
        at_ += 2;
        Until("*/");
      } else {
        ++at_;
      }
    }
  }

  void Quoted(char quote) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      To(at_ + (text_[at_] == '\\' ? 2 : 1));
    }
    To(at_ + 1);
  }

  // R"delim( ... )delim", at the quote.
  void Raw() {
    const size_t open = text_.find('(', at_);
    if (open == absl::string_view::npos) return To(text_.size());
    const std::string end =
        absl::StrCat(")", text_.substr(at_ + 1, open - at_ - 1), "\"");
    at_ = open;
    Until(end);
  }

  void Step() {
    const char c = text_[at_];
    const size_t begin = at_;
    if (c == '\n') {
      line_start_ = true;
      ++at_;
      return;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++at_;
      return;
    }
    if (c == '#' && line_start_) return Directive();
    line_start_ = false;
    if (Next("//")) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (Next("/*")) {
      at_ += 2;
      Until("*/");
    } else if (WordStart(c)) {
      while (at_ < text_.size() && WordChar(text_[at_])) ++at_;
      const absl::string_view word = text_.substr(begin, at_ - begin);
      if (at_ < text_.size() && text_[at_] == '"' &&
          (word == "R" || word == "u8R" || word == "LR" || word == "uR" ||
           word == "UR")) {
        Raw();
        Emit(CppToken::Kind::kLiteral, begin);
      } else {
        Emit(CppToken::Kind::kWord, begin);
      }
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      // 1'000, 0x1p-3, 1e+5f: a quote between digits is no character literal.
      while (at_ < text_.size() &&
             (WordChar(text_[at_]) || text_[at_] == '.' ||
              (text_[at_] == '\'' && at_ + 1 < text_.size() &&
               WordChar(text_[at_ + 1])))) {
        ++at_;
      }
      Emit(CppToken::Kind::kLiteral, begin);
    } else if (c == '"' || c == '\'') {
      Quoted(c);
      Emit(CppToken::Kind::kLiteral, begin);
    } else {
      To(at_ + (Next("<<<") || Next(">>>") ? 3 : 1));
      Emit(CppToken::Kind::kPunctuation, begin);
    }
  }

  const absl::string_view text_;
  size_t at_ = 0;
  bool line_start_ = true;
  std::vector<CppToken> out_;
};

}  // namespace

std::vector<CppToken> LexCpp(absl::string_view text) {
  return CppLexer(text).Run();
}

absl::StatusOr<std::vector<size_t>> MatchBrackets(
    absl::string_view text, const std::vector<CppToken>& tokens) {
  std::vector<size_t> match(tokens.size(), 0), open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != CppToken::Kind::kPunctuation) continue;
    const char c = text[tokens[i].begin];
    if (c == '(' || c == '{' || c == '[') {
      open.push_back(i);
    } else if (c == ')' || c == '}' || c == ']') {
      const char want = c == ')' ? '(' : c == '}' ? '{' : '[';
      if (open.empty() || text[tokens[open.back()].begin] != want) {
        return absl::InvalidArgumentError(absl::StrCat(
            "unmatched '", std::string(1, c), "' at byte ", tokens[i].begin));
      }
      match[open.back()] = i;
      open.pop_back();
    }
  }
  if (!open.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unclosed bracket at byte ", tokens[open.back()].begin));
  }
  return match;
}

}  // namespace dice
