#include "evaluator/compile/unit.h"

#include <cctype>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace dice {
namespace {

constexpr size_t kTextLimit = 8 << 10;

bool IsDefine(const std::string& flag) {
  if (!absl::StartsWith(flag, "-D") || flag.size() < 3) return false;
  for (size_t i = 2; i < flag.size(); ++i)
    if (!std::isalnum(static_cast<unsigned char>(flag[i])) && flag[i] != '_' &&
        flag[i] != '=' && flag[i] != '.')
      return false;
  return !std::isdigit(static_cast<unsigned char>(flag[2]));
}

std::string DefineLines(const Candidate& c) {
  std::string lines;
  for (const std::string& d : c.defines)
    absl::StrAppend(&lines, "#define ",
                    absl::StrReplaceAll(d.substr(2), {{"=", " "}}),
                    absl::StrContains(d, '=') ? "\n" : " 1\n");
  return lines;
}

bool HasWord(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != text.npos;
       at = text.find(word, at + 1)) {
    const auto plain = [&](size_t i) {
      return i >= text.size() ||
             (!std::isalnum(static_cast<unsigned char>(text[i])) &&
              text[i] != '_');
    };
    if ((at == 0 || plain(at - 1)) && plain(at + word.size())) return true;
  }
  return false;
}

bool Blank(const std::string& text) {
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) return false;
  return true;
}

// `candidate3.cu` at the start of a line: 3; else -1.
int CandidateOfLine(absl::string_view line, size_t* prefix) {
  constexpr absl::string_view kName = "candidate";
  if (line.substr(0, kName.size()) != kName) return -1;
  size_t at = kName.size();
  int number = 0;
  while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])))
    number = number * 10 + (line[at++] - '0');
  if (at == kName.size() || line.substr(at, 2) != ".c") return -1;
  *prefix = at;
  return number;
}

std::string Undefine(const SplitSource& s) {
  std::string lines;
  for (const std::string& m : s.macros)
    absl::StrAppend(&lines, "#undef ", m, "\n");
  return lines;
}

void AppendSource(const std::string& text, size_t i, const char* extension,
                  std::string* out) {
  if (Blank(text)) return;
  absl::StrAppend(out, "#line 1 \"candidate", i, extension, "\"\n", text, "\n");
}

std::string Trim(std::string text) {
  if (text.size() > kTextLimit) {
    text.resize(kTextLimit);
    text += "\n...";
  }
  return text;
}

void AppendTable(const Candidate& c, size_t i, const std::string& scope,
                 std::string* out) {
  absl::StrAppend(out, "static constexpr ::dice_emulate::Entry dice_table", i,
                  "[] = {\n");
  for (const std::string& f : c.request.functions) {
    std::string target = f;
    for (const auto* s : {&c.cpp, &c.cuda})
      for (const auto& [name, function] : s->bindings)
        if (name == f) target = function;
    absl::StrAppend(out, "{\"", f, "\", &::dice_emulate::Call<&", scope, target,
                    ">},\n");
  }
  absl::StrAppend(out, "{nullptr, nullptr}};\n");
}

}  // namespace

Candidate MakeCandidate(const CompileRequest& request) {
  Candidate c;
  c.request = request;
  c.cpp = Split(absl::StrJoin(request.cpp_sources, "\n"));
  c.cuda = Split(absl::StrJoin(request.cuda_sources, "\n"));
  for (const std::string& f : request.cuda_flags) {
    if (f == "--use_fast_math" || f == "-use_fast_math") c.fast_math = true;
    if (IsDefine(f)) c.defines.push_back(f);
  }
  for (const std::string& f : request.cpp_flags)
    if (IsDefine(f)) c.defines.push_back(f);
  // A PYBIND11_MODULE names them when the caller does not.
  if (c.request.functions.empty())
    for (const auto* s : {&c.cpp, &c.cuda})
      for (const auto& [name, function] : s->bindings)
        c.request.functions.push_back(name);
  return c;
}

DeviceUnit MakeDeviceUnit(const std::vector<const Candidate*>& candidates,
                          const std::string& prelude) {
  DeviceUnit unit;
  std::string body;
  bool fp16 = false, torch = false, standard = false;
  const bool shared = candidates.size() > 1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string& text = candidates[i]->cuda.device;
    if (Blank(text)) continue;
    torch |=
        HasWord(text, "torch") || HasWord(text, "at") || HasWord(text, "c10");
    standard |= HasWord(text, "std");
    fp16 |= torch || absl::StrContains(text, "half") ||
            absl::StrContains(text, "bfloat16") ||
            absl::StrContains(text, "#include");
    body += DefineLines(*candidates[i]);
    if (shared) absl::StrAppend(&body, "namespace dice_c", i, " {\n");
    AppendSource(text, i, ".cu", &body);
    if (shared) absl::StrAppend(&body, "}\n", Undefine(candidates[i]->cuda));
  }
  if (body.empty()) return unit;
  if (standard || torch) unit.text += "#define DICE_STD\n";
  if (torch) unit.text += "#define DICE_TORCH\n";
  if (fp16) unit.text += "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n";
  unit.needs_headers = fp16;
  unit.text += prelude;
  unit.text += body;
  return unit;
}

std::string MakeHostUnit(const std::vector<const Candidate*>& candidates,
                         bool shared) {
  std::string out =
      "#pragma GCC poison asm __asm__ __asm _Pragma __builtin_apply\n";
  std::string tables, list;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = *candidates[i];
    std::string scope = "::";
    if (shared) {
      for (const auto* s : {&c.cpp, &c.cuda})
        for (const std::string& m : s->macros)
          absl::StrAppend(&out, "#pragma push_macro(\"", m, "\")\n");
      absl::StrAppend(&out, "namespace { namespace dice_c", i, " {\n");
      scope = absl::StrCat("dice_c", i, "::");
    }
    out += DefineLines(c);
    AppendSource(c.cpp.emulated, i, ".cpp", &out);
    AppendSource(c.cuda.emulated, i, ".cu", &out);
    if (shared) {
      absl::StrAppend(&out, "\n}}\n");
      for (const auto* s : {&c.cuda, &c.cpp})
        for (const std::string& m : s->macros)
          absl::StrAppend(&out, "#pragma pop_macro(\"", m, "\")\n");
    }
    // Errors here (no such function) belong to the candidate.
    absl::StrAppend(&tables, "#line 1 \"candidate", i, ".cpp\"\n");
    AppendTable(c, i, scope, &tables);
    absl::StrAppend(&list, "dice_table", i, ", ");
  }
  absl::StrAppend(&out, tables,
                  "extern \"C\" const ::dice_emulate::Entry* const "
                  "dice_modules[] = {",
                  list, "nullptr};\n");
  return out;
}

std::map<int, std::string> ErrorsByCandidate(const std::string& log) {
  std::map<int, std::string> errors;
  int current = -1;
  std::map<int, bool> has_error;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    size_t prefix = 0;
    const int i = CandidateOfLine(line, &prefix);
    if (i >= 0) {
      current = i;
      if (absl::StrContains(line, "error")) has_error[i] = true;
      absl::StrAppend(&errors[i], "candidate", line.substr(prefix), "\n");
    } else if (current >= 0 && !absl::StrContains(line, "dice_emulate/") &&
               !absl::StrContains(line, "errors detected in") &&
               !absl::StrContains(line, "error detected in")) {
      absl::StrAppend(&errors[current], line, "\n");
    }
  }
  for (auto it = errors.begin(); it != errors.end();) {
    it->second = Trim(it->second);
    it = has_error[it->first] ? std::next(it) : errors.erase(it);
  }
  return errors;
}

std::string ErrorsOfOne(const std::string& log) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    size_t prefix = 0;
    if (CandidateOfLine(line, &prefix) == 0)
      absl::StrAppend(&out, "candidate", line.substr(prefix), "\n");
    else
      absl::StrAppend(&out, line, "\n");
  }
  return Trim(out);
}

}  // namespace dice
