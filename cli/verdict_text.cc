#include "cli/verdict_text.h"

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/command.h"

namespace dice::cli {
namespace {

using nlohmann::ordered_json;

std::string Bare(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return name == "UNSPECIFIED" ? "" : std::string(name);
}

std::string IsolationName(Isolation isolation) {
  return absl::AsciiStrToLower(Bare(Isolation_Name(isolation), "ISOLATION_"));
}

// JSON has no infinity and no NaN.
double Finite(double x) { return std::isfinite(x) ? x : 0; }

std::string Paint(bool colour, const char* code, const std::string& text) {
  return colour ? absl::StrCat("\033[", code, "m", text, "\033[0m") : text;
}

std::string Milliseconds(double ms) {
  if (ms >= 1) return absl::StrFormat("%.3g ms", ms);
  return absl::StrFormat("%.3g us", ms * 1e3);
}

void AppendLine(std::string& out, const char* name, const std::string& text) {
  // A text of several lines (compiler output) hangs below its name.
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n');
  absl::StrAppendFormat(&out, "  %-10s %s\n", name, lines[0]);
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::StrAppend(&out, "             ", lines[i], "\n");
  }
}

std::string StagesText(const StageSeconds& s) {
  std::vector<std::string> parts;
  for (const auto& [name, seconds] : {std::pair{"compile", s.compile()},
                                      {"load", s.load()},
                                      {"correctness", s.correctness()},
                                      {"timing", s.timing()}}) {
    if (seconds > 0) {
      parts.push_back(absl::StrCat(name, " ", Milliseconds(seconds * 1e3)));
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string StageName(JudgeStage stage) {
  return absl::AsciiStrToLower(Bare(JudgeStage_Name(stage), "STAGE_"));
}

int VerdictExitCode(const Verdict& v) {
  switch (v.outcome()) {
    case CORRECT:
      return kAccepted;
    case TASK_ERROR:
    case UNSUPPORTED:
      return kUndecided;
    default:
      return kRejected;
  }
}

ordered_json VerdictJson(const Verdict& v) {
  ordered_json j;
  j["outcome"] = Outcome_Name(v.outcome());
  j["blame"] = Bare(Blame_Name(v.blame()), "BLAME_");
  j["stage"] = StageName(v.stage());
  j["message"] = v.message();
  j["speedup"] = Finite(v.speedup());
  j["speedup_lo"] = Finite(v.speedup_lo());
  j["speedup_hi"] = Finite(v.speedup_hi());
  j["speedup_basis"] = v.speedup_basis();
  j["candidate_ms"] = Finite(v.candidate_ms());
  j["eager_ms"] = Finite(v.eager_ms());
  j["max_error"] = Finite(v.max_error());
  j["error_index"] = v.error_index();
  j["flags"] = std::vector<std::string>(v.flags().begin(), v.flags().end());
  j["notes"] = std::vector<std::string>(v.notes().begin(), v.notes().end());
  j["work"] = v.work();
  j["isolation"] = IsolationName(v.isolation());
  j["device"] = v.device();
  j["harness_version"] = v.harness_version();
  const StageSeconds& s = v.stage_s();
  j["stage_s"] = {{"parse", s.parse()},
                  {"compile", s.compile()},
                  {"load", s.load()},
                  {"correctness", s.correctness()},
                  {"timing", s.timing()}};
  j["cached"] = v.cached();
  return j;
}

std::string VerdictText(const Verdict& v, bool colour) {
  const int code = VerdictExitCode(v);
  const char* paint = code == kAccepted   ? "1;32"
                      : code == kRejected ? "1;31"
                                          : "1;33";
  std::string out = Paint(colour, paint, Outcome_Name(v.outcome()));
  absl::StrAppend(&out, " at ", StageName(v.stage()), "\n");
  if (!v.message().empty()) AppendLine(out, "why", v.message());
  if (v.seeds() > 0) {
    AppendLine(out, "compared",
               absl::StrFormat("%d input sets, largest error %.3g", v.seeds(),
                               v.max_error()));
  }
  if (v.candidate_ms() > 0) {
    std::string times = Milliseconds(v.candidate_ms()) + " a call";
    if (v.baseline_ms() > 0) {
      absl::StrAppend(&times, "; baseline ", Milliseconds(v.baseline_ms()));
    }
    if (v.eager_ms() > 0) {
      absl::StrAppend(&times, "; eager PyTorch ", Milliseconds(v.eager_ms()));
    }
    AppendLine(out, "time", times);
  }
  if (v.speedup() > 0) {
    AppendLine(
        out, "speedup",
        absl::StrFormat("%.2fx [%.2f, %.2f] over %s", v.speedup(),
                        v.speedup_lo(), v.speedup_hi(), v.speedup_basis()));
  }
  if (!v.work().empty()) AppendLine(out, "work", v.work());
  for (const std::string& flag : v.flags()) AppendLine(out, "flag", flag);
  for (const std::string& note : v.notes()) AppendLine(out, "note", note);
  const std::string stages = StagesText(v.stage_s());
  if (!stages.empty()) AppendLine(out, "stages", stages);
  AppendLine(out, "device",
             absl::StrCat(v.device(), ", isolation ",
                          IsolationName(v.isolation()), ", harness ",
                          v.harness_version(), v.cached() ? ", cached" : ""));
  return out;
}

}  // namespace dice::cli
