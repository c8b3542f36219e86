#include "common/tasks/tasks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/digest.h"
#include "common/text/fenced_code.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace dice {
namespace {

constexpr char kVerbatim[] = "{{response}}";
constexpr char kLiteral[] = "{{literal}}";

int Count(absl::string_view text, absl::string_view part) {
  int n = 0;
  for (size_t at = text.find(part); at != absl::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++n;
  }
  return n;
}

// `text` as a Python literal that is exactly these bytes read as UTF-8; bytes
// that are not UTF-8 become U+FFFD before this.
std::string PythonLiteral(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          absl::StrAppend(&out, "\\x", absl::Hex(c, absl::kZeroPad2));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

bool IsInfill(ResponseMode mode) {
  return mode == INFILL_FORCED || mode == INFILL_PROMPT_ONLY;
}

bool Reassembles(const Scaffold& s, const std::string& response) {
  return absl::StrCat(s.prefix(), s.middle(), s.suffix()) == response;
}

// A chat model may close its fence after the middle.
absl::string_view BeforeFence(absl::string_view text) {
  if (absl::StartsWith(text, "```")) return {};
  return text.substr(0, text.find("\n```"));
}

}  // namespace

std::vector<std::string> TaskViolations(const Task& task) {
  std::vector<std::string> bad;
  if (task.id().empty()) bad.push_back("no id");
  if (task.reference_source().empty()) bad.push_back("no reference_source");
  if (task.prompt().empty()) bad.push_back("no prompt");
  if (!task.candidate_template().empty() &&
      Count(task.candidate_template(), kVerbatim) +
              Count(task.candidate_template(), kLiteral) !=
          1) {
    bad.push_back(absl::StrCat("candidate_template needs exactly one of ",
                               kVerbatim, " and ", kLiteral));
  }
  for (int i = 0; i < task.solutions_size(); ++i) {
    const Solution& s = task.solutions(i);
    if (s.quality() != "naive" && s.quality() != "good") {
      bad.push_back(absl::StrCat("solutions[", i, "].quality '", s.quality(),
                                 "' is neither naive nor good"));
    }
    if (s.has_scaffold() && !Reassembles(s.scaffold(), s.response())) {
      bad.push_back(absl::StrCat(
          "solutions[", i, "]: prefix + middle + suffix is not the response"));
    }
  }
  if (!task.split().empty() && task.split() != "train" &&
      task.split() != "heldout") {
    bad.push_back(absl::StrCat("split '", task.split(),
                               "' is neither train nor heldout"));
  }
  if (task.tolerance() < 0) bad.push_back("tolerance is negative");
  return bad;
}

std::string TaskDigest(const Task& task) {
  // Only what a verdict depends on: the same problem under another name or in
  // another split shares its evaluations.
  Task judged;
  judged.set_reference_source(task.reference_source());
  judged.set_candidate_template(task.candidate_template());
  judged.set_naive_response(task.naive_response());
  judged.set_tolerance(task.tolerance());
  judged.set_quarantine_reason(task.quarantine_reason());
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    judged.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

std::string MakePrompt(const Task& task, ResponseMode mode) {
  return IsInfill(mode) && !task.infill_prompt().empty() ? task.infill_prompt()
                                                         : task.prompt();
}

std::string ForcedPrefix(const Task& task, ResponseMode mode) {
  return mode == INFILL_FORCED ? task.scaffold().prefix() : "";
}

absl::StatusOr<std::string> MakeCandidate(const Task& task, ResponseMode mode,
                                          absl::string_view response) {
  std::string complete(response);
  if (task.candidate_template().empty()) {
    if (mode == INFILL_FORCED) {
      const absl::string_view prefix = task.scaffold().prefix();
      if (!absl::StartsWith(response, prefix)) {
        return absl::InvalidArgumentError(
            "the response does not begin with the forced prefix");
      }
      return absl::StrCat(prefix, BeforeFence(response.substr(prefix.size())),
                          task.scaffold().suffix());
    }
    // InfillPrompt already opened the fence.
    if (mode == INFILL_PROMPT_ONLY) {
      complete = absl::StrCat("```python\n", response);
    }
    if (auto code = ExtractFencedCode(complete)) return *std::move(code);
    return absl::InvalidArgumentError("no fenced code block in the response");
  }
  if (mode == INFILL_FORCED) complete += task.scaffold().suffix();
  std::string out = task.candidate_template();
  if (const size_t at = out.find(kVerbatim); at != std::string::npos) {
    return out.replace(at, sizeof(kVerbatim) - 1, complete);
  }
  const size_t at = out.find(kLiteral);
  if (at == std::string::npos) {
    return absl::InvalidArgumentError("candidate_template has no placeholder");
  }
  return out.replace(at, sizeof(kLiteral) - 1, PythonLiteral(complete));
}

SftSample MakeSftSample(const Task& task, const Solution& solution,
                        bool whole) {
  if (whole || !solution.has_scaffold()) {
    return {.prompt = MakePrompt(task, END_TO_END),
            .trained = solution.response()};
  }
  return {.prompt = MakePrompt(task, INFILL_FORCED),
          .forced = solution.scaffold().prefix(),
          .trained = solution.scaffold().middle()};
}

}  // namespace dice
