#include "cli/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace dice::cli {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);

}  // namespace

std::string LastLines(const std::string& path, int lines) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() || text->empty()) return "  (its log is empty)";
  std::vector<std::string> all =
      absl::StrSplit(*text, '\n', absl::SkipWhitespace());
  const size_t skip = all.size() - std::min<size_t>(all.size(), lines);
  all.erase(all.begin(), all.begin() + skip);
  return absl::StrCat("  ", absl::StrJoin(all, "\n  "));
}

Supervisor::~Supervisor() {
  std::vector<std::string> names;
  for (const Group& g : groups_) names.push_back(g.spec.name);
  Stop(names, absl::ZeroDuration());
}

void Supervisor::Add(GroupSpec spec) {
  groups_.emplace_back();
  groups_.back().spec = std::move(spec);
}

absl::Status Supervisor::Describe(const Child& child, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(
      child.spec.name, " ", what, "\nits log: ", child.spec.log_path,
      "\nthe last lines:\n", LastLines(child.spec.log_path, 15)));
}

absl::Status Supervisor::Start(Group& group) {
  group.children.clear();
  for (ChildSpec& spec : group.spec.make(group.attempt)) {
    if (!spec.ready_file.empty()) std::filesystem::remove(spec.ready_file);
    Process::Options options;
    options.argv = options_.trampoline;
    options.argv.insert(options.argv.end(), spec.argv.begin(), spec.argv.end());
    options.env = spec.env;
    options.stderr_path = spec.log_path;
    options.stdout_path =
        spec.stdout_path.empty() ? spec.log_path : spec.stdout_path;
    DICE_ASSIGN_OR_RETURN(std::unique_ptr<Process> process,
                          Process::Spawn(options), spec.name);
    group.children.push_back({std::move(spec), std::move(process)});
  }
  ++group.attempt;
  group.up = true;
  group.started = clock_.Now();
  group.first_exit = absl::InfiniteFuture();
  return absl::OkStatus();
}

absl::StatusOr<bool> Supervisor::Step() {
  for (Group& group : groups_) {
    const absl::Time now = clock_.Now();
    if (group.retired) continue;
    if (!group.up) {
      if (now < group.next_start) continue;
      if (group.attempt > 0) ++restarts_;
      DICE_RETURN_IF_ERROR(Start(group));
      continue;
    }
    const auto running =
        std::count_if(group.children.begin(), group.children.end(),
                      [](const Child& c) { return c.process->Running(); });
    if (running == static_cast<int64_t>(group.children.size())) continue;
    group.first_exit = std::min(group.first_exit, now);
    if (running == 0) {
      DICE_ASSIGN_OR_RETURN(const bool finished, Ended(group));
      if (finished) return true;
    } else if (now - group.first_exit > group.spec.gang_grace) {
      DICE_LOG(kWarning) << group.spec.name << ": killing the " << running
                         << " that outlived a lost sibling";
      for (Child& c : group.children) c.process->Kill(SIGKILL);
    }
  }
  return false;
}

absl::StatusOr<bool> Supervisor::Ended(Group& group) {
  group.up = false;
  const Child* failed = nullptr;
  std::string how;
  for (const Child& child : group.children) {
    const ExitStatus exit = *child.process->Wait();
    if (exit.ok()) continue;
    if (exit.code == 2) {
      absl::Status why = Describe(child, "ended with exit code 2");
      return absl::FailedPreconditionError(why.message());
    }
    // The first that was not merely killed with the others says most.
    if (failed == nullptr || exit.signal == 0) {
      failed = &child;
      how = exit.ToString();
    }
  }
  if (failed == nullptr) {
    switch (group.spec.on_success) {
      case GroupSpec::OnSuccess::kFinishRun:
        return true;
      case GroupSpec::OnSuccess::kRetire:
        group.retired = true;
        return false;
      case GroupSpec::OnSuccess::kRestart:
        failed = &group.children.front();
        how = "exit code 0, though it should go on";
    }
  }
  const absl::Time now = clock_.Now();
  if (now - group.started >= options_.stable_after) group.failures = 0;
  if (++group.failures >= group.spec.max_failures) {
    return Describe(*failed, absl::StrCat("failed ", group.failures,
                                          " times in a row, now with ", how));
  }
  const absl::Duration wait =
      std::min(options_.first_backoff * (1 << std::min(group.failures - 1, 10)),
               options_.longest_backoff);
  group.next_start = now + wait;
  DICE_LOG(kWarning) << failed->spec.name << " ended with " << how
                     << "; started again in " << absl::FormatDuration(wait)
                     << " (log: " << failed->spec.log_path << ")";
  return false;
}

absl::Status Supervisor::AwaitReady(const std::string& name,
                                    absl::Time deadline,
                                    const std::function<bool()>& stop) {
  while (true) {
    DICE_RETURN_IF_ERROR(Step().status());
    const Child* waiting = nullptr;
    for (const Group& group : groups_) {
      if (group.spec.name != name) continue;
      for (const Child& child : group.children) {
        if (!child.spec.ready_file.empty() &&
            !std::filesystem::exists(child.spec.ready_file)) {
          waiting = &child;
        }
      }
    }
    if (waiting == nullptr) return absl::OkStatus();
    if (stop()) return absl::CancelledError("stopped while starting");
    if (clock_.Now() > deadline) {
      return absl::DeadlineExceededError(
          Describe(*waiting, "is not ready in time").message());
    }
    clock_.Sleep(kPoll);
  }
}

void Supervisor::Stop(const std::vector<std::string>& names,
                      absl::Duration grace) {
  const auto named = [&](const Group& g) {
    return std::find(names.begin(), names.end(), g.spec.name) != names.end();
  };
  const auto signal_all = [&](int signal) {
    for (Group& g : groups_) {
      if (!named(g)) continue;
      for (Child& c : g.children) c.process->Kill(signal);
    }
  };
  const auto any_running = [&] {
    return std::any_of(groups_.begin(), groups_.end(), [&](Group& g) {
      return named(g) &&
             std::any_of(g.children.begin(), g.children.end(),
                         [](Child& c) { return c.process->Running(); });
    });
  };
  signal_all(SIGTERM);
  const absl::Time deadline = clock_.Now() + grace;
  while (any_running() && clock_.Now() < deadline) clock_.Sleep(kPoll);
  signal_all(SIGKILL);
  std::erase_if(groups_, named);  // reaps
}

std::map<std::string, int> Supervisor::Running() {
  std::map<std::string, int> out;
  for (Group& g : groups_) {
    for (Child& c : g.children) {
      if (c.process->Running()) out[c.spec.name] = c.process->pid();
    }
  }
  return out;
}

}  // namespace dice::cli
