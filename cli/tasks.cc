#include "cli/tasks.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/digest.h"
#include "common/tasks/prompt.h"
#include "common/tasks/tasks.h"

namespace dice::cli {
namespace {

struct Options {
  std::string path, id, out, family, split;
  std::string cut = "body";
  double heldout = 0.1;
};

int Complain(int code, absl::string_view text) {
  std::cerr << "dice tasks: " << text << "\n";
  return code;
}

// What a filter is compared with: the value of a task, or all.
bool Passes(const std::string& filter, const std::string& value) {
  return filter.empty() || filter == value;
}

absl::string_view FirstLine(absl::string_view text) {
  return text.substr(0, text.find('\n'));
}

int List(const Options& o) {
  const auto tasks = LoadTasks(o.path);
  if (!tasks.ok()) return Complain(kUsage, tasks.status().message());
  std::map<std::string, int> families;
  int shown = 0;
  for (const Task& t : *tasks) {
    if (!Passes(o.family, t.family()) || !Passes(o.split, t.split())) continue;
    ++shown;
    ++families[t.family()];
    std::cout << absl::StreamFormat(
        "%-28s %-8s %-12s %d solutions  %s\n", t.id(), t.split(), t.family(),
        t.solutions_size(),
        t.quarantine_reason().empty()
            ? FirstLine(t.prompt())
            : absl::StrCat("quarantined: ", t.quarantine_reason()));
  }
  std::cout << shown << " of " << tasks->size() << " tasks, " << families.size()
            << " families\n";
  return kAccepted;
}

void Print(absl::string_view title, absl::string_view text) {
  if (text.empty()) return;
  std::cout << "--- " << title << "\n"
            << text << (text.back() == '\n' ? "" : "\n");
}

int Show(const Options& o) {
  const auto tasks = LoadTasks(o.path);
  if (!tasks.ok()) return Complain(kUsage, tasks.status().message());
  for (const Task& t : *tasks) {
    if (t.id() != o.id) continue;
    std::cout << t.id() << "  digest " << TaskDigest(t) << "\n";
    Print("reference", t.reference_source());
    Print("prompt", t.prompt());
    Print("infill prompt", t.infill_prompt());
    Print("forced prefix", ForcedPrefix(t, INFILL_FORCED));
    for (const Solution& s : t.solutions()) {
      Print(absl::StrCat("solution, ", s.quality()), s.response());
    }
    Print("candidate template", t.candidate_template());
    return kAccepted;
  }
  return Complain(kUsage, absl::StrCat("no task ", o.id, " in ", o.path));
}

int Cut(const Options& o) {
  static const auto& kCuts = *new std::map<std::string, ScaffoldCut>{
      {"body", ScaffoldCut::kKernelBody},
      {"kernel", ScaffoldCut::kKernel},
      {"launcher", ScaffoldCut::kLauncher}};
  const auto tasks = LoadTasks(o.path);
  if (!tasks.ok()) return Complain(kUsage, tasks.status().message());
  const std::vector<Task> made = CutTasks(*tasks, kCuts.at(o.cut), o.heldout);
  if (made.empty()) {
    return Complain(kRejected, "no task has a complete kernel to cut");
  }
  if (const absl::Status s = SaveTasksJsonl(o.out, made); !s.ok()) {
    return Complain(kInfra, s.message());
  }
  std::cout << made.size() << " tasks from " << tasks->size() << " in " << o.out
            << "\n";
  return kAccepted;
}

}  // namespace

std::vector<Task> CutTasks(const std::vector<Task>& tasks, ScaffoldCut cut,
                           double heldout_share) {
  std::vector<Task> out;
  for (const Task& task : tasks) {
    // With a template a response is only a part of a candidate.
    if (task.solutions().empty() || !task.candidate_template().empty())
      continue;
    const auto code =
        MakeCandidate(task, END_TO_END, task.solutions(0).response());
    if (!code.ok()) continue;
    const auto scaffolds = CutScaffolds(*code, cut);
    if (!scaffolds.ok()) continue;
    const double place =
        static_cast<double>(Xxh3(task.reference_source()) >> 11) * 0x1p-53;
    for (size_t i = 0; i < scaffolds->size(); ++i) {
      Task made = task;
      made.set_id(absl::StrCat(task.id(), "/", i));
      *made.mutable_scaffold() = (*scaffolds)[i];
      made.set_infill_prompt(
          InfillPrompt(task.reference_source(), made.scaffold()));
      made.set_split(place < heldout_share ? "heldout" : "train");
      out.push_back(std::move(made));
    }
  }
  return out;
}

void AddTasks(CLI::App& app, Body& body) {
  auto o = std::make_shared<Options>();
  CLI::App* tasks = app.add_subcommand(
      "tasks", "Look at task files; make infilling tasks of kernels");
  tasks->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       int (*run)(const Options&)) {
    CLI::App* c = tasks->add_subcommand(name, help);
    c->add_option("path", o->path,
                  "Task file: .jsonl, .jsonl.gz, .json, .py or a folder")
        ->required();
    c->callback([o, run, &body] { body = [o, run] { return run(*o); }; });
    return c;
  };
  CLI::App* list = add("list", "One line a task", List);
  list->add_option("--family", o->family, "Only this family");
  list->add_option("--split", o->split, "Only this split");
  CLI::App* show = add("show", "Everything about one task", Show);
  show->add_option("id", o->id, "Id of the task")->required();
  CLI::App* cut = add("cut", "Make infilling tasks of complete kernels", Cut);
  cut->add_option("out", o->out, "The .jsonl to write")->required();
  cut->add_option("--cut", o->cut, "What becomes the middle")
      ->check(CLI::IsMember({"body", "kernel", "launcher"}));
  cut->add_option("--heldout", o->heldout, "Share of problems held out")
      ->check(CLI::Range(0.0, 1.0));
}

}  // namespace dice::cli
