// The pool's whole logic as one object without sockets or files: admission,
// fairness, leases with fencing, retries, duplicates. Tested with a FakeClock.
//
// Life of an evaluation: parked (its task is unknown) -> queued -> leased ->
// decided. A lost lease goes back to the retry list, which is served first. An
// evaluation leaves exactly once: by a verdict, or reported lost.
#ifndef DICE_EVALUATOR_POOL_EVALUATION_QUEUE_H_
#define DICE_EVALUATOR_POOL_EVALUATION_QUEUE_H_

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "evaluator/pool/queue_types.h"

namespace dice {

// Thread-safe; no call blocks or does IO. Answers and cancels come back as
// Effects, which the caller sends.
class EvaluationQueue {
 public:
  EvaluationQueue(const QueueOptions& options, Clock& clock)
      : options_(options), clock_(clock) {}

  // `request_id` is the client's; its answer appears in later Effects.
  Admission Submit(ClientId client, uint64_t request_id,
                   EvaluationRequest request) ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets what this client waits for. What only it waited for leaves the
  // queue; what is leased goes on, because the client may come back for it.
  void RemoveClient(ClientId client) ABSL_LOCKS_EXCLUDED(mu_);
  void TaskArrived(const std::string& digest) ABSL_LOCKS_EXCLUDED(mu_);
  // `client` will send no more tasks: what it parked is reported lost.
  void AbandonParked(ClientId client, Effects* effects)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A worker with hello.slots slots. It keeps the leases that hello.running
  // names, if nobody else has them: also after a restart of the pool.
  WorkerId AddWorker(const RegisterWorker& hello, Effects* effects)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Its leases go to others. Unknown ids are ignored.
  void RemoveWorker(WorkerId worker, Effects* effects) ABSL_LOCKS_EXCLUDED(mu_);
  void SetDraining(WorkerId worker) ABSL_LOCKS_EXCLUDED(mu_);

  // The next evaluation and the worker that gets it; nullopt: nothing waits or
  // nobody is free. Call again after every other call.
  std::optional<Assignment> LeaseNext() ABSL_LOCKS_EXCLUDED(mu_);

  // `keys` made progress: their leases are extended. Keys that this worker has
  // no right to any more are cancelled.
  void Heartbeat(WorkerId worker, const std::vector<std::string>& keys,
                 Effects* effects) ABSL_LOCKS_EXCLUDED(mu_);
  // A verdict counts whenever its key is undecided, however late it is; an
  // infra_error only from the worker and attempt that hold the lease.
  void Complete(WorkerId worker, const WorkerResult& result, Effects* effects)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Answers `key` from the cache, whatever its state.
  void Decide(const std::string& key, const Verdict& verdict, Effects* effects)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes back the leases that no heartbeat extended. Call every second or so.
  void ExpireLeases(Effects* effects) ABSL_LOCKS_EXCLUDED(mu_);

  QueueStats Stats() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiter {
    ClientId client;
    uint64_t request_id;
  };
  enum class State { kParked, kQueued, kRetry, kLeased };
  struct Entry {
    EvaluationRequest request;
    bool has_content = true;  // false: adopted, nobody asked for it yet
    State state = State::kQueued;
    std::vector<Waiter> waiters;
    ClientId owner = 0;        // in whose line it stands
    uint64_t ticket = 0;       // of its valid place in a line
    int64_t attempt = 0;       // of the lease
    int64_t last_attempt = 0;  // highest ever given
    WorkerId worker = 0;       // kLeased
    absl::Time deadline;       // kLeased
    absl::Time leased_at;
    absl::Time submitted;
    absl::Duration queue_time;
    absl::Time not_before = absl::InfinitePast();  // kRetry
    bool alone = false;
    int losses = 0;
    int infra_errors = 0;
    std::set<std::string> failed_on;  // names of workers
  };
  using Place = std::pair<std::string, uint64_t>;  // key, ticket
  struct Client {
    std::deque<Place> line;
    bool in_ring = false;
    int64_t queued = 0;
    std::unordered_set<std::string> keys;  // it waits for
  };
  struct Worker {
    RegisterWorker hello;
    std::set<std::string> leased;
    bool draining = false;
    bool suspect = false;      // let a lease expire, silent since
    std::string reserved_for;  // the key that runs, or shall run, alone here
  };

  // All below: mu_ is held. The line; its places are left lazily, a ticket says
  // whether one still holds.
#define DICE_LOCKED ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_)
  void Enqueue(Entry& e) DICE_LOCKED;
  void LeaveLine(Entry& e) DICE_LOCKED;
  Entry* Find(const Place& place, State state) DICE_LOCKED;
  Entry* NextInLine() DICE_LOCKED;
  Entry* NextRetry(WorkerId* worker) DICE_LOCKED;
  // Leases. Worker 0: nobody may have it now.
  WorkerId PickWorker(const Entry* retry) DICE_LOCKED;
  void Reserve(const Entry& e) DICE_LOCKED;
  Assignment Lease(Entry& e, WorkerId worker) DICE_LOCKED;
  void Hold(Entry& e, WorkerId worker) DICE_LOCKED;
  void Release(Entry& e) DICE_LOCKED;
  bool Adopt(WorkerId id, const RunningEvaluation& running) DICE_LOCKED;
  void TakeBack(Entry& e, Requeue why, Effects* effects) DICE_LOCKED;
  // Ends of an evaluation: `e` may be gone afterwards.
  void Settle(Entry& e, Verdict verdict, bool cacheable,
              Effects* effects) DICE_LOCKED;
  void GiveUp(Entry& e, const std::string& why, Effects* effects) DICE_LOCKED;
  void Fail(Entry& e, const std::string& message, Effects* effects) DICE_LOCKED;
  void Answer(Entry& e, EvaluateResponse response,
              Effects* effects) DICE_LOCKED;
  void Erase(Entry& e) DICE_LOCKED;
#undef DICE_LOCKED

  const QueueOptions options_;
  Clock& clock_;
  mutable Mutex mu_;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::vector<std::string>> parked_
      ABSL_GUARDED_BY(mu_);  // task digest -> keys
  std::unordered_map<ClientId, Client> clients_ ABSL_GUARDED_BY(mu_);
  std::deque<ClientId> ring_ ABSL_GUARDED_BY(mu_);  // clients with a line
  std::deque<Place> retries_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, Worker> workers_ ABSL_GUARDED_BY(mu_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mu_) = 1;
  WorkerId next_worker_ ABSL_GUARDED_BY(mu_) = 1;
  int64_t queued_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t leased_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_EVALUATION_QUEUE_H_
