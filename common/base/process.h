// Child processes by posix_spawn: the parent may have threads, gRPC and CUDA,
// none of which survive a fork.
#ifndef DICE_COMMON_BASE_PROCESS_H_
#define DICE_COMMON_BASE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dice {

struct ExitStatus {
  int code = 0;    // exit code, when signal == 0
  int signal = 0;  // the signal that ended it, else 0
  bool ok() const { return code == 0 && signal == 0; }
  std::string ToString() const;  // "exit code 3" | "signal 9 (Killed)"
};

// One child in its own process group. Not thread-safe, except Kill. The
// destructor kills the whole group and reaps it: a child never outlives its
// owner.
class Process {
 public:
  struct Options {
    std::vector<std::string> argv;  // argv[0] is looked up in PATH
    // Added to (or replacing entries of) the parent's environment.
    std::vector<std::pair<std::string, std::string>> env;
    std::string stdout_path;  // empty = inherit; else appended to
    std::string stderr_path;  // may equal stdout_path
    // (fd here, fd number in the child). Everything else is closed on exec.
    std::vector<std::pair<int, int>> fds;
  };
  // NOT_FOUND when argv[0] is not there.
  static absl::StatusOr<std::unique_ptr<Process>> Spawn(const Options& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // Blocks until exit or `deadline`; DEADLINE_EXCEEDED leaves it running.
  // After it ended, returns the same status again.
  absl::StatusOr<ExitStatus> Wait(
      absl::Time deadline = absl::InfiniteFuture());
  bool Running();
  void Kill(int signal);  // to the whole group; no effect once reaped

 private:
  Process(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  const pid_t pid_;
  const int pidfd_;
  bool reaped_ = false;
  ExitStatus status_;
};

}  // namespace dice

#endif  // DICE_COMMON_BASE_PROCESS_H_
