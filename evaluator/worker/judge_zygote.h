// The warm Python parent of oracles and runners, and the jailed children that
// it forks. The worker itself has threads and gRPC and never forks.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_ZYGOTE_H_
#define DICE_EVALUATOR_WORKER_JUDGE_ZYGOTE_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/base/channel.h"
#include "common/base/mutex.h"
#include "common/base/process.h"

namespace dice {

struct ChildLimits {
  int64_t memory_bytes = int64_t{4} << 30;
  int64_t file_bytes = int64_t{4} << 30;  // of one memfd or file
  int64_t cpu_seconds = 600;              // backstop
  int threads = 64;                       // where each child has its own uid
};

// A jailed process. Destroying it kills its whole pid namespace.
class JailedChild {
 public:
  JailedChild(pid_t pid, OwnedFd pidfd, OwnedFd control)
      : pid_(pid), pidfd_(std::move(pidfd)), channel_(std::move(control)) {}
  JailedChild(const JailedChild&) = delete;
  JailedChild& operator=(const JailedChild&) = delete;
  ~JailedChild() { Kill(); }

  Channel& channel() { return channel_; }
  pid_t pid() const { return pid_; }
  void Kill();  // SIGKILL; harmless when it is gone. Thread-safe.
  // CPU time of all its threads, read from outside; nothing inside can set it.
  // UNAVAILABLE when it is gone.
  absl::StatusOr<absl::Duration> CpuTime() const;
  int64_t ResidentBytes() const;  // 0 when it is gone

 private:
  const pid_t pid_;
  OwnedFd pidfd_;
  Channel channel_;
};

// Thread-safe.
class Zygote {
 public:
  struct Options {
    std::string python;
    std::string harness_dir;  // holds evaluator/
    std::string jail_library;
    int level = 3;         // DICE_JAIL_*
    std::string log_path;  // of the zygote itself
  };
  // Blocks until Python has imported torch (seconds). FAILED_PRECONDITION: it
  // does not start, with its output.
  static absl::StatusOr<std::unique_ptr<Zygote>> Start(const Options& options);
  ~Zygote();

  int level() const { return level_; }  // reached, DICE_JAIL_*
  const std::string& level_note() const { return note_; }

  // UNAVAILABLE: the zygote is gone or cannot fork.
  absl::StatusOr<std::unique_ptr<JailedChild>> Fork(const std::string& role,
                                                    const ChildLimits& limits)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Exit code, or -signal, of a child that is ending. UNAVAILABLE at the
  // deadline.
  absl::StatusOr<int> AwaitExit(pid_t pid, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Zygote() = default;
  void Listen(std::stop_token stop);

  std::string root_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<Channel> channel_;
  int level_ = 0;
  std::string note_;
  Mutex send_mu_;
  Mutex mu_;
  CondVar changed_;
  int64_t next_job_ ABSL_GUARDED_BY(mu_) = 0;
  struct Started {
    pid_t pid = -1;
    OwnedFd pidfd;
    std::string error;
  };
  std::map<std::string, Started> started_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, pid_t> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<pid_t, int> exits_ ABSL_GUARDED_BY(mu_);
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread listener_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_ZYGOTE_H_
