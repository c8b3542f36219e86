// The trusted side of an evaluation: one jailed oracle process per task, kept
// warm and shared by the candidates of that task.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_ORACLE_H_
#define DICE_EVALUATOR_WORKER_JUDGE_ORACLE_H_

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "evaluator/worker/judge_zygote.h"
#include "proto/task.pb.h"
#include "proto/verdict.pb.h"

namespace dice {

struct Comparison {
  bool ok = false;
  std::string text;
  double max_error = 0;
  int64_t index = -1;  // first wrong element, flat; -1 = shape or type
  double expected = 0, got = 0;
};

// Thread-safe; calls are served one at a time. A Status is our failure;
// FAILED_PRECONDITION alone means that the TASK is at fault (its text says
// how).
class Oracle {
 public:
  // Forks, loads the reference and checks that the task can be judged. Inputs
  // are drawn from `seed`, which no runner may learn.
  static absl::StatusOr<std::shared_ptr<Oracle>> Start(
      Zygote& zygote, const ChildLimits& limits, const Task& task,
      const Profile& profile, uint64_t seed);

  // Memfds that live as long as this; the runner gets duplicates.
  int init_fd() const { return init_.get(); }
  int state_fd() const { return state_.get(); }
  // Seeds weights and random numbers inside forward, on both sides. It says
  // nothing about the seed of the inputs.
  uint64_t run_seed() const { return run_seed_; }
  // The reference itself, as it is, on this machine's CPU; seconds per call.
  double eager_seconds() const { return eager_seconds_; }
  // Whether the reference itself writes to its inputs.
  bool changes_inputs() const { return changes_inputs_; }
  // Worth knowing in each verdict, e.g. that inputs were made smaller.
  const std::vector<std::string>& notes() const { return notes_; }
  absl::StatusOr<int> Inputs(int set) ABSL_LOCKS_EXCLUDED(mu_);
  // n fresh argument lists of burst `index`, stacked. Files of one n have one
  // size and layout; index 0 is all zeros.
  absl::StatusOr<int> Burst(int index, int n) ABSL_LOCKS_EXCLUDED(mu_);
  // Room for the outputs of n calls; the caller copies it.
  absl::StatusOr<int> Slots(int n) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Comparison> Compare(int set, int outputs_fd, double tolerance)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Checks some of the first `ran` calls; which ones, only the oracle knows.
  absl::StatusOr<Comparison> CompareBurst(int index, int n, int ran,
                                          int outputs_fd, double tolerance)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Oracle() = default;
  // The descriptor that answers `request`, kept under `key`.
  absl::StatusOr<int> Keep(const std::string& key,
                           const nlohmann::json& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ChannelMessage> Ask(const nlohmann::json& request,
                                     const std::vector<int>& fds)
      ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::unique_ptr<JailedChild> child_;
  OwnedFd init_, state_;
  uint64_t run_seed_ = 0;
  double eager_seconds_ = 0;
  bool changes_inputs_ = false;
  std::vector<std::string> notes_;
  std::map<std::string, OwnedFd> kept_ ABSL_GUARDED_BY(mu_);
};

// Live oracles by key, least recently used ones closed. Thread-safe. A task
// that cannot be judged is remembered too.
class OracleCache {
 public:
  explicit OracleCache(int capacity) : capacity_(capacity) {}
  // The oracle of `key`; made by `start` outside of the lock, once.
  template <typename Start>
  absl::StatusOr<std::shared_ptr<Oracle>> Get(const std::string& key,
                                              const Start& start)
      ABSL_LOCKS_EXCLUDED(mu_) {
    std::shared_ptr<Entry> entry = Find(key);
    MutexLock lock(entry->mu);
    if (!entry->made) {
      entry->oracle = start();
      // Trouble of ours is tried again; what the task did is final.
      entry->made = entry->oracle.ok() ||
                    absl::IsFailedPrecondition(entry->oracle.status());
    }
    return entry->oracle;
  }
  // Forgets an oracle that died.
  void Drop(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    Mutex mu;
    bool made ABSL_GUARDED_BY(mu) = false;
    absl::StatusOr<std::shared_ptr<Oracle>> oracle ABSL_GUARDED_BY(mu) =
        absl::UnavailableError("not started");
  };
  std::shared_ptr<Entry> Find(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_);

  const size_t capacity_;
  Mutex mu_;
  std::list<std::pair<std::string, std::shared_ptr<Entry>>> entries_
      ABSL_GUARDED_BY(mu_);  // most recently used first
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_ORACLE_H_
