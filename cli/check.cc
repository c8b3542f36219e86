// `dice check`: the judge alone, for one candidate, in a terminal.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/verdict_text.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tasks/tasks.h"
#include "evaluator/worker/judge.h"

namespace dice::cli {
namespace {

struct CheckOptions {
  std::string task;
  std::string candidate;
  std::string tolerance = "auto";
  std::string device = "auto";
  std::string isolation = "auto";
  int index = -1;
  int seeds = 0;
  double timeout_s = 0;
  double max_elements = 1 << 22;
  bool all = false;
  bool json = false;
  bool no_timing = false;
};

int Complain(int code, absl::string_view text) {
  std::cerr << "dice check: " << text << "\n";
  return code;
}

// What to judge: the candidate file, or the task's own first solution.
absl::StatusOr<std::string> CandidateOf(const Task& task,
                                        const CheckOptions& options) {
  std::string text;
  if (options.candidate.empty()) {
    if (task.solutions().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          task.id(), " has no solution of its own; name one by --candidate"));
    }
    return MakeCandidate(task, END_TO_END, task.solutions(0).response());
  }
  if (options.candidate == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    DICE_ASSIGN_OR_RETURN(text, ReadFile(options.candidate));
  }
  // A whole candidate, or what a model would answer.
  if (task.candidate_template().empty() ||
      absl::StrContains(text, "ModelNew")) {
    return text;
  }
  return MakeCandidate(task, END_TO_END, text);
}

absl::StatusOr<std::vector<Task>> ChooseTasks(const CheckOptions& options) {
  DICE_ASSIGN_OR_RETURN(std::vector<Task> tasks, LoadTasks(options.task));
  if (options.all) return tasks;
  const int index = options.index < 0 ? 0 : options.index;
  if (options.index < 0 && tasks.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.task, " holds ", tasks.size(),
                     " tasks: choose one by --index, or --all"));
  }
  if (index >= static_cast<int>(tasks.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.task, " has no task ", index, ", only ", tasks.size()));
  }
  return std::vector<Task>{tasks[index]};
}

absl::StatusOr<Profile> MakeProfile(const CheckOptions& options) {
  Profile p;
  double tolerance = 0;
  if (options.tolerance != "auto" &&
      (!absl::SimpleAtod(options.tolerance, &tolerance) || tolerance <= 0)) {
    return absl::InvalidArgumentError(
        "--tolerance is auto or a positive number, e.g. 1e-2");
  }
  p.set_tolerance(tolerance);
  p.set_seeds(options.seeds);
  p.set_timing(!options.no_timing);
  p.set_timeout_s(options.timeout_s);
  p.set_max_elements(options.max_elements);
  return p;
}

void Print(const CheckOptions& options, const Task& task, const Verdict& v) {
  if (options.json) {
    nlohmann::ordered_json j = VerdictJson(v);
    // One object a line; several need a name.
    if (options.all) j["task"] = task.id();
    std::cout << j.dump(-1, ' ', false,
                        nlohmann::json::error_handler_t::replace)
              << std::endl;
    return;
  }
  if (options.all) std::cout << task.id() << ": ";
  std::cout << VerdictText(v, isatty(STDOUT_FILENO)) << std::flush;
}

int RunCheck(const CheckOptions& options) {
  const auto profile = MakeProfile(options);
  if (!profile.ok()) return Complain(kUsage, profile.status().message());
  const auto tasks = ChooseTasks(options);
  if (!tasks.ok()) return Complain(kUsage, tasks.status().message());
  std::vector<std::string> candidates;
  for (const Task& task : *tasks) {
    auto candidate = CandidateOf(task, options);
    if (!candidate.ok()) return Complain(kUsage, candidate.status().message());
    candidates.push_back(*std::move(candidate));
  }
  SetMinLogLevel(LogLevel::kError);
  auto judge = CreateLocalJudge(
      {.device = options.device, .isolation = options.isolation});
  if (!judge.ok()) {
    return Complain(absl::IsInvalidArgument(judge.status()) ? kUsage : kInfra,
                    judge.status().message());
  }
  int worst = kAccepted;
  for (size_t i = 0; i < tasks->size(); ++i) {
    const auto verdict =
        (*judge)->Evaluate((*tasks)[i], candidates[i], *profile);
    int code = kInfra;
    if (verdict.ok()) {
      Print(options, (*tasks)[i], *verdict);
      code = VerdictExitCode(*verdict);
    } else {
      Complain(kInfra, verdict.status().ToString());
    }
    // Our own failure outweighs a rejection, which outweighs "undecided".
    const auto weight = [](int c) {
      return c == kInfra ? 3 : c == kRejected ? 2 : c == kUndecided ? 1 : 0;
    };
    if (weight(code) > weight(worst)) worst = code;
  }
  return worst;
}

}  // namespace

void AddCheck(CLI::App& app, Body& body) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* c = app.add_subcommand(
      "check", "Judge one candidate, or the tasks' own solutions");
  c->add_option("--task,task", options->task,
                "KernelBench .py file, .json list or .jsonl task file")
      ->required();
  c->add_option("--candidate,candidate", options->candidate,
                "Python with ModelNew, or a response for the task's template; "
                "- reads stdin; absent: the task's own solution");
  c->add_option("--index", options->index, "Which task of a list, from 0")
      ->check(CLI::NonNegativeNumber);
  c->add_flag("--all", options->all, "Every task of a list");
  c->add_flag("--json", options->json, "One JSON object a verdict on stdout");
  c->add_option("--device", options->device, "auto, cuda or emulated")
      ->check(CLI::IsMember({"auto", "cuda", "emulated"}));
  c->add_option("--isolation", options->isolation,
                "auto, full, partial or none")
      ->check(CLI::IsMember({"auto", "full", "partial", "none"}));
  c->add_option("--tolerance", options->tolerance,
                "auto (by type: 1e-4 or 1e-2), or a number");
  c->add_option("--seeds", options->seeds, "Input sets to compare; 0 = 3");
  c->add_option("--timeout", options->timeout_s,
                "Seconds the candidate may take; 0 = 10");
  c->add_option("--max-elements", options->max_elements,
                "Shrink inputs to this many elements; 0 = as they are");
  c->add_flag("--no-timing", options->no_timing, "Stop after correctness");
  c->callback(
      [options, &body] { body = [options] { return RunCheck(*options); }; });
}

}  // namespace dice::cli
