// Child processes that belong together: started, watched, restarted, ended.
#ifndef DICE_CLI_SUPERVISOR_H_
#define DICE_CLI_SUPERVISOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/process.h"

namespace dice::cli {

struct ChildSpec {
  std::string name;  // "worker-0"
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::string log_path;     // stderr, appended
  std::string stdout_path;  // empty: the log
  std::string ready_file;   // removed before each start; empty: ready at once
};

// Children that live and die together: a learner's ranks, or a single process.
struct GroupSpec {
  std::string name;
  // The children of one life; `attempt` counts from 0.
  std::function<std::vector<ChildSpec>(int attempt)> make;
  // What exit code 0 of all of them means.
  enum class OnSuccess {
    kRestart,    // a service has no reason to end
    kRetire,     // it has done its part
    kFinishRun,  // the whole run is over
  };
  OnSuccess on_success = OnSuccess::kRestart;
  // Failures in a row, each within `stable_after` of its start, before the run
  // is given up.
  int max_failures = 5;
  // After one of several children ended, how long the others may take.
  absl::Duration gang_grace = absl::Seconds(15);
};

// Not thread-safe, and the thread that calls Step must outlive the children:
// they are killed when it ends, however it ends.
class Supervisor {
 public:
  struct Options {
    absl::Duration stable_after = absl::Seconds(60);
    absl::Duration first_backoff = absl::Milliseconds(500);
    absl::Duration longest_backoff = absl::Seconds(10);
    // Put before each argv, so that a child dies with its parent. Empty: not.
    std::vector<std::string> trampoline;
  };
  explicit Supervisor(const Options& options, Clock& clock = Clock::Real())
      : options_(options), clock_(clock) {}
  // StopAll with no grace.
  ~Supervisor();

  void Add(GroupSpec spec);

  // Starts what is due, notices what ended. True: a group finished the run.
  // FAILED_PRECONDITION: a child ended with code 2, its usage or config is
  // wrong; UNAVAILABLE: a group keeps failing. Both texts name the child, its
  // log and the last lines of it. Never blocks for long.
  absl::StatusOr<bool> Step();
  // Steps until every child of `group` is ready. DEADLINE_EXCEEDED with the
  // same text; or the error of Step.
  absl::Status AwaitReady(const std::string& group, absl::Time deadline,
                          const std::function<bool()>& stop);
  // SIGTERM to the groups named, wait up to `grace`, then SIGKILL. Unknown
  // names are ignored; their groups are forgotten.
  void Stop(const std::vector<std::string>& groups, absl::Duration grace);

  int restarts() const { return restarts_; }
  // Process ids by child name, of those that run now.
  std::map<std::string, int> Running();

 private:
  struct Child {
    ChildSpec spec;
    std::unique_ptr<Process> process;
  };
  struct Group {
    GroupSpec spec;
    std::vector<Child> children;
    int attempt = 0;
    int failures = 0;
    bool up = false;
    bool retired = false;
    absl::Time started;
    absl::Time next_start = absl::InfinitePast();
    absl::Time first_exit = absl::InfiniteFuture();
  };

  absl::Status Start(Group& group);
  // What to do about a group of which every child has ended.
  absl::StatusOr<bool> Ended(Group& group);
  static absl::Status Describe(const Child& child, const std::string& what);

  const Options options_;
  Clock& clock_;
  std::vector<Group> groups_;
  int restarts_ = 0;
};

// The last `lines` lines of a file, or a note that there is none.
std::string LastLines(const std::string& path, int lines);

}  // namespace dice::cli

#endif  // DICE_CLI_SUPERVISOR_H_
