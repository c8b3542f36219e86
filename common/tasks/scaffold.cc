#include "common/tasks/scaffold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/tasks/cpp_lexer.h"

namespace dice {
namespace {

bool IsPunctuation(absl::string_view text, const CppToken& t,
                   absl::string_view what) {
  return t.kind == CppToken::Kind::kPunctuation && TextOf(text, t) == what;
}

// Whether the tokens of a declaration, up to its {, are those of a function:
// a name before a parameter list. Fills `f.name` and `f.is_global`.
bool ReadDeclaration(absl::string_view text,
                     const std::vector<CppToken>& tokens,
                     const std::vector<size_t>& match, size_t first,
                     size_t brace, FunctionSpan* f) {
  bool found = false;
  for (size_t i = first; i < brace; ++i) {
    const absl::string_view word = TextOf(text, tokens[i]);
    if (word == "__global__") f->is_global = true;
    if (tokens[i].kind == CppToken::Kind::kWord &&
        (word == "namespace" || word == "struct" || word == "class" ||
         word == "enum" || word == "union") &&
        !found &&
        !absl::StrContains(text.substr(tokens[first].begin,
                                       tokens[i].begin - tokens[first].begin),
                           "<")) {
      return false;
    }
    if (IsPunctuation(text, tokens[i], "(")) {
      // The last list whose opener follows a plain name: attributes such as
      // __launch_bounds__(256) come before it.
      if (i > first && tokens[i - 1].kind == CppToken::Kind::kWord &&
          TextOf(text, tokens[i - 1]) != "__launch_bounds__" &&
          TextOf(text, tokens[i - 1]) != "__attribute__" && !found) {
        f->name = std::string(TextOf(text, tokens[i - 1]));
        found = true;
      }
      i = match[i];
    }
  }
  return found;
}

// The braces that only open a scope: namespace N {, extern "C" {.
bool OpensScope(absl::string_view text, const std::vector<CppToken>& tokens,
                size_t first, size_t brace) {
  for (size_t i = first; i < brace; ++i) {
    const absl::string_view word = TextOf(text, tokens[i]);
    if (word == "namespace") return true;
  }
  return brace - first == 2 && TextOf(text, tokens[first]) == "extern" &&
         tokens[first + 1].kind == CppToken::Kind::kLiteral;
}

size_t LineBegin(absl::string_view text, size_t at) {
  const size_t newline = text.rfind('\n', at == 0 ? 0 : at - 1);
  if (at == 0 || newline == absl::string_view::npos) return 0;
  return newline + 1;
}
// After the newline that follows `at`, where only blanks stand between.
size_t AfterLine(absl::string_view text, size_t at) {
  size_t i = at;
  while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
  return i < text.size() && text[i] == '\n' ? i + 1 : at;
}
// To the begin of the line of `at`, where only blanks stand before it.
size_t BeforeLine(absl::string_view text, size_t at) {
  const size_t begin = LineBegin(text, at);
  const absl::string_view blank = text.substr(begin, at - begin);
  return blank.find_first_not_of(" \t") == absl::string_view::npos ? begin : at;
}

using Span = std::pair<size_t, size_t>;

// A statement of a body: tokens [first, last].
struct Statement {
  size_t first, last;
};

// Top-level statements among tokens [first, end): up to a `;`, or a block with
// all that belongs to it (else, the loop's or the if's single statement).
std::vector<Statement> SplitStatements(absl::string_view text,
                                       const std::vector<CppToken>& tokens,
                                       const std::vector<size_t>& match,
                                       size_t first, size_t end) {
  std::vector<Statement> out;
  size_t begin = first;
  for (size_t i = first; i < end; ++i) {
    if (IsPunctuation(text, tokens[i], "(") ||
        IsPunctuation(text, tokens[i], "[")) {
      i = match[i];
      continue;
    }
    const bool block = IsPunctuation(text, tokens[i], "{");
    if (block) i = match[i];
    if (!block && !IsPunctuation(text, tokens[i], ";")) continue;
    const absl::string_view next =
        i + 1 < end ? TextOf(text, tokens[i + 1]) : absl::string_view();
    // `int a[] = {..};`, `do {..} while (..);`, `if {..} else ..`
    if (block && (next == ";" || next == "while" || next == ",")) continue;
    if (next == "else") continue;
    out.push_back({begin, i});
    begin = i + 1;
  }
  return out;
}

bool NamesThreadIndex(absl::string_view text,
                      const std::vector<CppToken>& tokens, const Statement& s) {
  for (size_t i = s.first; i <= s.last; ++i) {
    const absl::string_view word = TextOf(text, tokens[i]);
    if (word == "threadIdx" || word == "blockIdx" || word == "blockDim" ||
        word == "gridDim") {
      return true;
    }
  }
  return false;
}

// The part of a kernel's body after its index lines and inside its guard.
Span BodyMiddle(absl::string_view text, const FunctionSpan& f,
                const std::vector<CppToken>& tokens,
                const std::vector<size_t>& match) {
  size_t first = 0;
  while (tokens[first].begin < f.body_begin) ++first;
  size_t end = first;
  while (tokens[end].begin < f.body_end) ++end;
  size_t from = f.body_begin, to = f.body_end;
  std::vector<Statement> body =
      SplitStatements(text, tokens, match, first, end);
  size_t kept = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    const bool simple = IsPunctuation(text, tokens[body[i].last], ";") &&
                        TextOf(text, tokens[body[i].first]) != "for";
    if (!simple) break;
    if (NamesThreadIndex(text, tokens, body[i])) kept = i + 1;
  }
  // A guard: one if-block that is all the rest.
  if (kept + 1 == body.size() &&
      TextOf(text, tokens[body[kept].first]) == "if" &&
      IsPunctuation(text, tokens[body[kept].last], "}")) {
    const size_t brace = match[body[kept].first + 1] + 1;
    if (IsPunctuation(text, tokens[brace], "{") &&
        match[brace] == body[kept].last) {
      from = tokens[brace].end;
      to = tokens[body[kept].last].begin;
      return {AfterLine(text, from), BeforeLine(text, to)};
    }
  }
  if (kept > 0) from = tokens[body[kept - 1].last].end;
  return {AfterLine(text, from), BeforeLine(text, to)};
}

// Cuts in plain CUDA text.
absl::StatusOr<std::vector<Span>> CutCuda(absl::string_view text,
                                          ScaffoldCut cut) {
  absl::StatusOr<std::vector<FunctionSpan>> functions = FindFunctions(text);
  if (!functions.ok()) return functions.status();
  const std::vector<CppToken> tokens = LexCpp(text);
  const std::vector<size_t> match = *MatchBrackets(text, tokens);
  std::vector<Span> out;
  for (const FunctionSpan& f : *functions) {
    if (cut == ScaffoldCut::kLauncher) {
      if (!f.launches || f.is_global) continue;
      out.emplace_back(AfterLine(text, f.body_begin),
                       BeforeLine(text, f.body_end));
    } else if (f.is_global && cut == ScaffoldCut::kKernel) {
      out.emplace_back(BeforeLine(text, f.begin),
                       AfterLine(text, f.body_end + 1));
    } else if (f.is_global) {
      out.push_back(BodyMiddle(text, f, tokens, match));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<FunctionSpan>> FindFunctions(
    absl::string_view cuda) {
  const std::vector<CppToken> tokens = LexCpp(cuda);
  absl::StatusOr<std::vector<size_t>> match = MatchBrackets(cuda, tokens);
  if (!match.ok()) return match.status();
  std::vector<FunctionSpan> out;
  size_t first = 0;  // of the declaration that is being read
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (IsPunctuation(cuda, tokens[i], "(")) {
      i = (*match)[i];
    } else if (IsPunctuation(cuda, tokens[i], ";") ||
               IsPunctuation(cuda, tokens[i], "}")) {
      first = i + 1;
    } else if (IsPunctuation(cuda, tokens[i], "{")) {
      if (OpensScope(cuda, tokens, first, i)) {
        first = i + 1;
        continue;
      }
      const size_t close = (*match)[i];
      FunctionSpan f{.begin = tokens[first].begin,
                     .body_begin = tokens[i].end,
                     .body_end = tokens[close].begin};
      if (ReadDeclaration(cuda, tokens, *match, first, i, &f)) {
        for (size_t k = i; k < close; ++k) {
          if (IsPunctuation(cuda, tokens[k], "<<<")) f.launches = true;
        }
        out.push_back(std::move(f));
      }
      i = close;
      first = i + 1;
    }
  }
  return out;
}

std::vector<std::pair<size_t, size_t>> FindPythonStrings(
    absl::string_view python) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t i = 0; i < python.size(); ++i) {
    const char c = python[i];
    if (c == '#') {
      i = std::min(python.find('\n', i), python.size() - 1);
    } else if (c == '"' || c == '\'') {
      const std::string triple(3, c);
      const bool is_triple = absl::StartsWith(python.substr(i), triple);
      const std::string quote = is_triple ? triple : std::string(1, c);
      const size_t begin = i + quote.size();
      size_t end = begin;
      // A backslash keeps the next character, in raw strings too.
      while (end < python.size() &&
             !absl::StartsWith(python.substr(end), quote) &&
             (is_triple || python[end] != '\n')) {
        end += python[end] == '\\' ? 2 : 1;
      }
      if (end >= python.size()) break;
      if (python[end] == '\n' && !is_triple) {
        i = end;  // unterminated: not a literal of one line
        continue;
      }
      out.emplace_back(begin, end);
      i = end + quote.size() - 1;
    }
  }
  return out;
}

absl::StatusOr<std::vector<Scaffold>> CutScaffolds(absl::string_view source,
                                                   ScaffoldCut cut) {
  // Plain CUDA, or each literal of a Python file that could be CUDA.
  std::vector<Span> texts;
  if (absl::StrContains(source, "import torch")) {
    for (const auto& [begin, end] : FindPythonStrings(source)) {
      const absl::string_view text = source.substr(begin, end - begin);
      if (absl::StrContains(text, "__global__") ||
          absl::StrContains(text, "<<<")) {
        texts.emplace_back(begin, end);
      }
    }
  } else {
    texts.emplace_back(0, source.size());
  }
  std::vector<Scaffold> out;
  for (const auto& [base, end] : texts) {
    absl::StatusOr<std::vector<Span>> cuts =
        CutCuda(source.substr(base, end - base), cut);
    if (!cuts.ok()) return cuts.status();
    for (const auto& [from, to] : *cuts) {
      const absl::string_view middle = source.substr(base + from, to - from);
      if (middle.find_first_not_of(" \t\r\n") == absl::string_view::npos) {
        continue;
      }
      Scaffold& s = out.emplace_back();
      s.set_prefix(std::string(source.substr(0, base + from)));
      s.set_middle(std::string(middle));
      s.set_suffix(std::string(source.substr(base + to)));
    }
  }
  if (out.empty()) return absl::NotFoundError("no place for such a cut");
  return out;
}

}  // namespace dice
