// The worker without its connection: slots that judge, tasks that were fetched,
// heartbeats that mean progress. Messages from the pool go in by Handle, those
// for it come out by `send`.
#ifndef DICE_EVALUATOR_WORKER_WORK_LOOP_H_
#define DICE_EVALUATOR_WORKER_WORK_LOOP_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "evaluator/worker/judge.h"
#include "proto/worker_service.pb.h"

namespace dice {

// Thread-safe. An evaluation outlives the stream that brought it: its result is
// sent when there is a stream again.
class WorkLoop {
 public:
  struct Options {
    int slots = 1;
    absl::Duration heartbeat = absl::Seconds(5);
    // A stage that takes longer has hung: the evaluation is killed and reported
    // as our failure. The judge's own limits are far below.
    absl::Duration stage_limit = absl::Minutes(5);
    size_t max_tasks = 1024;  // kept for leases to come
  };
  // Must not block. Called from any thread, never with a lock of ours held.
  using Send = std::function<void(WorkerMessage)>;

  // `judge` and `clock` outlive this.
  WorkLoop(const Options& options, Judge& judge, Clock& clock, Send send);
  // Kills what runs (Judge::Shutdown) and joins.
  ~WorkLoop();

  // lease, task or cancel_key; others are ignored.
  void Handle(const PoolMessage& message) ABSL_LOCKS_EXCLUDED(mu_);
  // For a new stream: what is held now. Leases that wait for their task ask for
  // it again.
  std::vector<RunningEvaluation> Resume() ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until nothing is held or `deadline`; true in the first case.
  bool AwaitIdle(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);
  int held() const ABSL_LOCKS_EXCLUDED(mu_);
  // Sends one heartbeat and fails what hangs; its own thread calls it every
  // Options::heartbeat.
  void BeatOnce() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  enum class State { kNeedsTask, kReady, kRunning };
  struct Job {
    const EvaluationLease lease;
    int64_t attempt;                   // of the newest lease for this work
    std::shared_ptr<const Task> task;  // null while kNeedsTask
    State state = State::kNeedsTask;
    bool abandoned = false;  // nobody wants its result any more
    absl::Time progress;     // of the latest sign of it
    std::stop_source stop;
    std::optional<EvaluationLease> again;  // leased anew while being killed
  };
  using Jobs = std::map<std::string, std::shared_ptr<Job>>;

  void AddLease(const EvaluationLease& lease) ABSL_LOCKS_EXCLUDED(mu_);
  void AddTask(const Task& task) ABSL_LOCKS_EXCLUDED(mu_);
  void Cancel(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_);
  void RunSlot(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mu_);
  // The next job that may start; nullptr after Stop.
  std::shared_ptr<Job> Take() ABSL_LOCKS_EXCLUDED(mu_);
  void Finish(const std::shared_ptr<Job>& job, absl::StatusOr<Verdict> result)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Beat(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Judge& judge_;
  Clock& clock_;
  const Send send_;
  mutable Mutex mu_;
  CondVar changed_;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);  // by key
  std::deque<std::shared_ptr<Job>> ready_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<const Task>> tasks_
      ABSL_GUARDED_BY(mu_);  // by digest
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  bool alone_ ABSL_GUARDED_BY(mu_) = false;  // one runs that must be alone
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_WORK_LOOP_H_
