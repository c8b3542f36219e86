#include "evaluator/compile/launch_rewriter.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "evaluator/compile/source_rules.h"

namespace dice {
namespace {

using Names = std::set<std::string_view>;

bool Adjacent(const std::vector<Token>& t, size_t i, std::string_view c) {
  return i + 2 < t.size() && t[i].Is(c) && t[i + 1].Is(c) && t[i + 2].Is(c) &&
         t[i].end == t[i + 1].begin && t[i + 1].end == t[i + 2].begin;
}

bool IsControl(std::string_view word) {
  return word == "if" || word == "for" || word == "while" || word == "switch" ||
         word == "catch" || word == "constexpr";
}

// Function name -> the words of its body, for every `name(...) ... {`, and
// macro name -> the words of its text.
std::map<std::string_view, Names> Bodies(const std::vector<Token>& tokens) {
  std::map<std::string_view, Names> bodies;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const Token& t = tokens[i];
    if (t.kind == Token::Kind::kDirective) {
      const std::vector<Token> inner = LexDirective(t);
      if (inner.size() < 2 || !inner[0].Is("define")) continue;
      for (const Token& w : inner)
        if (w.IsIdentifier()) bodies[inner[1].text].insert(w.text);
    }
    if (!t.IsIdentifier() || !tokens[i + 1].Is("(") || IsControl(t.text))
      continue;
    size_t after = MatchingBracket(tokens, i + 1) + 1;
    while (after < tokens.size() &&
           (tokens[after].Is("const") || tokens[after].Is("noexcept")))
      ++after;
    if (after >= tokens.size() || !tokens[after].Is("{")) continue;
    const size_t close = MatchingBracket(tokens, after);
    Names& words = bodies[t.text];
    for (size_t k = after; k < close; ++k)
      if (tokens[k].IsIdentifier()) words.insert(tokens[k].text);
  }
  return bodies;
}

// The functions and macros whose run may make threads wait for each other.
Names Waiting(const std::map<std::string_view, Names>& bodies) {
  Names waiting;
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& [name, words] : bodies) {
      if (waiting.count(name) != 0) continue;
      const bool waits =
          std::any_of(words.begin(), words.end(), [&](std::string_view w) {
            return IsBarrierName(w) || waiting.count(w) != 0;
          });
      if (waits) grown = waiting.insert(name).second;
    }
  }
  return waiting;
}

class Rewriter {
 public:
  Rewriter(const std::vector<Token>& tokens, bool* found)
      : bodies_(Bodies(tokens)), waiting_(Waiting(bodies_)), found_(found) {
    // A struct's call operator is not followed: if anything in the source can
    // wait, so may a kernel that calls through an object.
    for (const Token& t : tokens)
      operators_wait_ |= t.Is("operator") && !waiting_.empty();
    Walk(tokens);
    for (const Token& t : tokens)
      if (t.kind == Token::Kind::kDirective) Walk(LexDirective(t));
  }

  Edits Take() { return std::move(edits_); }

 private:
  void Walk(const std::vector<Token>& t) {
    for (size_t i = 0; i < t.size(); ++i) {
      if (Adjacent(t, i, "<")) Launch(t, i);
      if (t[i].Is("extern") || t[i].Is("__shared__")) ExternShared(t, i);
    }
  }

  // `open`: index of the first < of <<<.
  void Launch(const std::vector<Token>& t, size_t open) {
    const size_t name = KernelBegin(t, open);
    size_t close = open + 3;
    while (close < t.size() && !Adjacent(t, close, ">"))
      close = t[close].Is("(") || t[close].Is("{") || t[close].Is("[")
                  ? MatchingBracket(t, close) + 1
                  : close + 1;
    const size_t args = close + 3;
    if (name == open || args >= t.size() || !t[args].Is("(")) return;
    if (MatchingBracket(t, args) >= t.size()) return;
    *found_ = true;
    const std::string_view kernel = KernelName(t, name, open);
    const bool known = bodies_.count(kernel) != 0;
    const bool waits = !known || operators_wait_ || waiting_.count(kernel) != 0;
    const bool empty = t[args + 1].Is(")");
    edits_.push_back({t[name].begin, t[name].begin,
                      std::string("::dice_emulate::Run<") +
                          (waits ? "true" : "false") +
                          ">([&](auto... dice_a) { "});
    edits_.push_back({t[open].begin, t[open + 2].end,
                      "(dice_a...); }, ::dice_emulate::MakeLaunch("});
    edits_.push_back({t[close].begin, t[close + 2].end, ")"});
    edits_.push_back({t[args].begin, t[args].end, empty ? "" : ", "});
    for (size_t i = args, end = MatchingBracket(t, args); i < end; ++i)
      if (t[i].Is("NULL")) edits_.push_back({t[i].begin, t[i].end, "nullptr"});
  }

  // First token of the kernel's name: ns::kernel<T, 4>.
  static size_t KernelBegin(const std::vector<Token>& t, size_t open) {
    size_t i = open;
    if (i > 0 && t[i - 1].Is(">")) {
      int depth = 0;
      while (i > 0) {
        --i;
        if (t[i].Is(")"))
          for (int parens = 1; i > 0 && parens > 0;)
            --i, parens += t[i].Is(")") ? 1 : t[i].Is("(") ? -1 : 0;
        if (t[i].Is(">")) ++depth;
        if (t[i].Is("<") && --depth == 0) break;
      }
    } else if (i > 0 && t[i - 1].Is(")")) {
      for (int parens = 0; i > 0;) {
        --i;
        parens += t[i].Is(")") ? 1 : t[i].Is("(") ? -1 : 0;
        if (parens == 0) return i;
      }
    }
    if (i == 0 || !t[i - 1].IsIdentifier()) return open;
    --i;
    while (i > 0 && t[i - 1].Is("::")) {
      --i;
      if (i > 0 && t[i - 1].IsIdentifier()) --i;
    }
    return i;
  }

  // The last plain name before template arguments.
  static std::string_view KernelName(const std::vector<Token>& t, size_t begin,
                                     size_t open) {
    std::string_view name;
    for (size_t i = begin; i < open && !t[i].Is("<"); ++i)
      if (t[i].IsIdentifier()) name = t[i].text;
    return name;
  }

  void ExternShared(const std::vector<Token>& t, size_t i) {
    size_t end = i;
    bool is_extern = false, shared = false;
    while (end < t.size() && !t[end].Is(";") && !t[end].Is("{") &&
           !t[end].Is("="))
      ++end;
    if (end >= t.size() || !t[end].Is(";") || end < i + 5) return;
    if (!t[end - 1].Is("]") || !t[end - 2].Is("[") ||
        !t[end - 3].IsIdentifier())
      return;
    std::string type;
    for (size_t k = i; k < end - 3; ++k) {
      if (t[k].Is("extern")) {
        is_extern = true;
      } else if (t[k].Is("__shared__")) {
        shared = true;
      } else if (t[k].Is("__align__") || t[k].Is("alignas") ||
                 t[k].Is("__attribute__")) {
        k = MatchingBracket(t, k + 1);
      } else {
        if (!type.empty()) type += ' ';
        type += t[k].text;
      }
    }
    if (!is_extern || !shared || type.empty()) return;
    edits_.push_back({t[i].begin, t[end - 1].end,
                      type + "* const " + std::string(t[end - 3].text) +
                          " = reinterpret_cast<" + type +
                          "*>(::dice_emulate::dynamic_shared)"});
  }

  const std::map<std::string_view, Names> bodies_;
  const Names waiting_;
  bool* const found_;
  bool operators_wait_ = false;
  Edits edits_;
};

}  // namespace

Edits RewriteLaunches(const std::vector<Token>& tokens, bool* found) {
  return Rewriter(tokens, found).Take();
}

std::string Apply(std::string_view source, Edits edits) {
  std::stable_sort(
      edits.begin(), edits.end(),
      [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
  std::string out;
  size_t at = 0;
  for (const Edit& e : edits) {
    if (e.begin < at) continue;  // inside a range that is gone
    out += source.substr(at, e.begin - at);
    out += e.text;
    at = e.end;
  }
  out += source.substr(at);
  return out;
}

}  // namespace dice
