#include "evaluator/compile/split.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "evaluator/compile/launch_rewriter.h"
#include "evaluator/compile/lexer.h"
#include "evaluator/compile/source_rules.h"

namespace dice {
namespace {

// Spaces instead of text, newlines kept.
void Blank(size_t begin, size_t end, std::string* text) {
  for (size_t i = begin; i < end; ++i)
    if ((*text)[i] != '\n') (*text)[i] = ' ';
}

class Splitter {
 public:
  explicit Splitter(std::string_view source)
      : source_(source), tokens_(Lex(source)), device_(source) {}

  SplitSource Run() {
    CheckText();
    for (const Token& t : tokens_) {
      if (t.kind == Token::Kind::kDirective)
        Directive(t);
      else if (t.IsIdentifier())
        Word(t.text);
    }
    if (!BracketsBalance(tokens_)) out_.needs_own_unit = true;
    Scope(0, tokens_.size());
    Edits edits = RewriteLaunches(tokens_, &out_.has_launches);
    for (auto& edit : emulated_edits_) edits.push_back(std::move(edit));
    out_.emulated = Apply(source_, std::move(edits));
    out_.device = std::move(device_);
    return std::move(out_);
  }

 private:
  void Refuse(std::string_view why) {
    if (out_.refusal.empty()) out_.refusal = std::string(why);
  }
  void Unsupported(std::string_view what) {
    if (out_.unsupported.empty()) out_.unsupported = std::string(what);
  }

  // Spellings that would slip past the tokens.
  void CheckText() {
    for (const char* s : {"?\?=", "?\?/", "%:", "\\u", "\\U"})
      if (source_.find(s) != source_.npos)
        Refuse(
            "error: digraphs, trigraphs and universal names are not accepted");
    if (EndsInside(source_)) out_.needs_own_unit = true;
    bool attribute = false, pasting = false;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const Token& t = tokens_[i];
      attribute |= t.text.find("__attribute") != t.text.npos ||
                   t.text.find("[[") != t.text.npos;
      pasting |=
          t.kind == Token::Kind::kDirective && t.text.find("##") != t.text.npos;
      if (t.Is("__attribute__") || t.Is("__attribute") ||
          (t.Is("[") && i + 1 < tokens_.size() && tokens_[i + 1].Is("["))) {
        const size_t close = MatchingBracket(tokens_, t.Is("[") ? i : i + 1);
        for (size_t k = i; k < close && k < tokens_.size(); ++k)
          if (tokens_[k].kind == Token::Kind::kString)
            Refuse("error: attributes with a string are not accepted");
        out_.needs_own_unit = true;
      }
    }
    if (attribute && pasting)
      Refuse("error: attributes beside token pasting are not accepted");
  }

  void Word(std::string_view word) {
    if (word == "asm" || word == "__asm__" || word == "__asm")
      Unsupported("inline assembler");
    else if (word == "_Pragma" || word == "__pragma" ||
             word == "dice_emulate" || word == "dice_a")
      Refuse(absl::StrCat("error: '", std::string(word), "' is not accepted"));
    else if (word == "PYBIND11_MODULE" || word == "thread_local" ||
             word == "static_assert" || word == "_Static_assert")
      out_.needs_own_unit = true;
    if (NeedsFacade(word)) out_.needs_facade = true;
  }

  void Directive(const Token& t) {
    const std::vector<Token> inner = LexDirective(t);
    if (inner.empty()) return;  // a lone #
    const std::string_view name = inner[0].text;
    if (name == "include") {
      Include(t, inner);
    } else if (name == "define") {
      for (const Token& w : inner)
        if (w.IsIdentifier()) Word(w.text);
      if (!BracketsBalance(inner)) out_.needs_own_unit = true;
      if (inner.size() > 1) Define(t, inner);
    } else if (name == "pragma") {
      const bool unroll = inner.size() > 1 && (inner[1].Is("unroll"));
      if (!unroll) Blank(t.begin, t.end, &device_);
      emulated_edits_.push_back({t.begin, t.end, Newlines(t.text)});
    } else if (name == "if" || name == "ifdef" || name == "ifndef" ||
               name == "elif" || name == "else" || name == "endif" ||
               name == "undef" || name == "error" || name == "warning") {
      for (const Token& w : inner)
        if (w.IsIdentifier()) Word(w.text);
      out_.needs_own_unit = true;
    } else {
      Refuse(absl::StrCat("error: #", std::string(name), " is not accepted"));
    }
  }

  void Define(const Token& t, const std::vector<Token>& inner) {
    const std::string name(inner[1].text);
    const bool makes_device = t.text.find("__global__") != t.text.npos ||
                              t.text.find("__device__") != t.text.npos;
    const bool function_like =
        inner.size() > 2 && inner[2].Is("(") && inner[2].begin == inner[1].end;
    out_.macros.push_back(name);
    if (function_like) function_macros_.insert(name);
    if (makes_device) device_macros_.insert(name);
    if (t.text.find("__global__") != t.text.npos) out_.has_kernels = true;
  }

  void Include(const Token& t, const std::vector<Token>& inner) {
    std::string_view name = t.text.substr(inner[0].end - t.begin);
    const size_t open = name.find_first_of("<\"");
    const size_t close =
        open == name.npos ? name.npos : name.find_first_of(">\"", open + 1);
    if (close == name.npos) return Refuse("error: #include expects \"FILE\"");
    name = name.substr(open + 1, close - open - 1);
    bool in_device = false;
    switch (ClassifyInclude(name)) {
      case IncludeKind::kProvided:
        if (name.substr(0, 6) == "cublas") out_.needs_facade = true;
        break;
      case IncludeKind::kDevice:
        in_device = true;
        out_.needs_facade = true;
        break;
      case IncludeKind::kStandard:
        break;
      case IncludeKind::kUnsupported:
        Unsupported(absl::StrCat("<", std::string(name), ">"));
        break;
      case IncludeKind::kUnknown:
        Refuse(absl::StrCat("fatal error: ", std::string(name),
                            ": No such file or directory"));
    }
    if (!in_device) Blank(t.begin, t.end, &device_);
    emulated_edits_.push_back({t.begin, t.end, Newlines(t.text)});
  }

  static std::string Newlines(std::string_view text) {
    return std::string(
        static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), '\n');
  }

  // The items of a namespace (or file): tokens [begin, end).
  void Scope(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      if (tokens_[i].kind == Token::Kind::kDirective || tokens_[i].Is(";")) {
        ++i;
      } else {
        i = Item(i, end);
      }
    }
  }

  // Handles the item that starts at `begin` and returns where the next starts.
  size_t Item(size_t begin, size_t end) {
    size_t i = begin;
    if (tokens_[i].Is("inline") && i + 1 < end &&
        tokens_[i + 1].Is("namespace"))
      ++i;
    if (tokens_[i].Is("namespace") ||
        (tokens_[i].Is("extern") && i + 2 < end &&
         tokens_[i + 1].kind == Token::Kind::kString &&
         tokens_[i + 2].Is("{"))) {
      out_.needs_own_unit |= tokens_[i].Is("extern");
      while (i < end && !tokens_[i].Is("{") && !tokens_[i].Is(";")) ++i;
      if (i < end && tokens_[i].Is("{")) {
        const size_t close = std::min(MatchingBracket(tokens_, i), end);
        Scope(i + 1, close);
        return close + 1;
      }
      return i + 1;
    }
    // A macro's call may make anything: both texts keep it.
    if (function_macros_.count(tokens_[i].text) != 0 && i + 1 < end &&
        tokens_[i + 1].Is("("))
      return std::min(MatchingBracket(tokens_, i + 1), end - 1) + 1;
    return Declaration(begin, end);
  }

  size_t Declaration(size_t begin, size_t end) {
    bool device = false, type = false, parens = false, assigned = false;
    bool host = false, is_extern = false, is_constexpr = false;
    size_t i = begin, body = end;
    while (i < end && tokens_[i].Is("template")) i = AfterTemplate(i, end);
    for (; i < end; ++i) {
      const Token& t = tokens_[i];
      if (t.Is(";")) break;
      if (t.Is("(")) parens = true;
      if (t.Is("=")) assigned |= !NamesOperator(begin, i);
      if (t.Is("{") && !assigned && parens && !type) {
        body = i;
        i = MatchingBracket(tokens_, i);
        break;
      }
      if (t.Is("{") || t.Is("(") || t.Is("[")) {
        const size_t close = std::min(MatchingBracket(tokens_, i), end);
        for (size_t k = i; k < close; ++k) host |= HostWord(k);
        for (size_t k = i; k < close && t.Is("{"); ++k) {
          device |= IsDeviceQualifier(k);
          out_.has_kernels |= tokens_[k].Is("__global__");
        }
        i = close;
        continue;
      }
      if (!parens &&
          (t.Is("struct") || t.Is("class") || t.Is("union") || t.Is("enum")))
        type = true;
      is_extern |= t.Is("extern");
      is_constexpr |= t.Is("constexpr");
      host |= HostWord(i);
      device |= IsDeviceQualifier(i);
      out_.has_kernels |= t.Is("__global__");
    }
    const size_t last = std::min(i, end - 1);
    if (is_extern && !device) out_.needs_own_unit = true;
    if (parens && body != end) Function(begin, body, last);
    const bool host_function =
        parens && !type && !assigned && !device && !is_constexpr;
    const bool using_host = tokens_[begin].Is("using") && host;
    if (!device &&
        (host || host_function || using_host || UsesStdNamespace(begin, last)))
      Blank(tokens_[begin].begin, tokens_[last].end, &device_);
    return last + 1;
  }

  bool HostWord(size_t i) const {
    return tokens_[i].IsIdentifier() && IsHostName(tokens_[i].text);
  }
  bool IsDeviceQualifier(size_t i) const {
    const std::string_view t = tokens_[i].text;
    return t == "__global__" || t == "__device__" || t == "__constant__" ||
           t == "__shared__" || t == "__managed__" ||
           device_macros_.count(t) != 0;
  }
  // `using namespace std;`
  bool UsesStdNamespace(size_t begin, size_t last) const {
    return last >= begin + 2 && tokens_[begin].Is("using") &&
           tokens_[begin + 1].Is("namespace") && tokens_[begin + 2].Is("std");
  }
  // `operator==` and its like, not an initialiser.
  bool NamesOperator(size_t begin, size_t i) const {
    for (size_t back = 1; back <= 3 && i >= begin + back; ++back)
      if (tokens_[i - back].Is("operator")) return true;
    return false;
  }
  // Index after the `>` that ends the parameters of a `template` at i.
  size_t AfterTemplate(size_t i, size_t end) const {
    int depth = 0;
    for (++i; i < end; ++i) {
      if (tokens_[i].Is("(")) i = MatchingBracket(tokens_, i);
      if (i >= end) break;
      if (tokens_[i].Is("<")) ++depth;
      if (tokens_[i].Is(">") && --depth == 0) return i + 1;
      if (depth == 0) return i;
    }
    return end;
  }

  // A function definition with its body's braces at [body, last].
  void Function(size_t begin, size_t body, size_t last) {
    if (tokens_[begin].Is("PYBIND11_MODULE")) {
      for (size_t i = body; i + 5 < last; ++i)
        if (tokens_[i].Is("def") && tokens_[i + 1].Is("(") &&
            tokens_[i + 2].kind == Token::Kind::kString) {
          std::string_view name = tokens_[i + 2].text;
          name = name.substr(1, name.size() - 2);
          const size_t at = i + (tokens_[i + 4].Is("&") ? 5 : 4);
          if (tokens_[at].IsIdentifier())
            out_.bindings.emplace_back(name, tokens_[at].text);
        }
      emulated_edits_.push_back(
          {tokens_[begin].begin, tokens_[last].end,
           Newlines(source_.substr(tokens_[begin].begin,
                                   tokens_[last].end - tokens_[begin].begin))});
    }
  }

  const std::string_view source_;
  const std::vector<Token> tokens_;
  std::string device_;
  Edits emulated_edits_;
  std::set<std::string, std::less<>> function_macros_;
  std::set<std::string, std::less<>> device_macros_;  // say __device__
  SplitSource out_;
};

}  // namespace

SplitSource Split(std::string_view source) { return Splitter(source).Run(); }

}  // namespace dice
