// The front without its sockets: joins queue, store and metrics, and sends what
// they decide through sinks. pool_service.h puts gRPC streams on top.
//
//   client -> Handle(EvaluateRequest) -> cache? -> queue -> lease -> worker
//   worker -> Handle(WorkerMessage)   -> queue -> store, answer -> client
#ifndef DICE_EVALUATOR_POOL_POOL_H_
#define DICE_EVALUATOR_POOL_POOL_H_

#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "evaluator/pool/evaluation_queue.h"
#include "evaluator/pool/metrics.h"
#include "evaluator/pool/pool_store.h"

namespace dice {

// Where messages for one peer go. Send must not block, nor call the Pool.
template <typename Message>
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void Send(Message message) = 0;
  // Nothing will be sent any more; what was sent still goes out.
  virtual void Close() = 0;
};
using ClientSink = Sink<EvaluateResponse>;
using WorkerSink = Sink<PoolMessage>;

// Thread-safe. Sinks are not owned: each is valid until its Remove returns.
class Pool {
 public:
  struct Deps {
    PoolStore& store;
    PoolMetrics& metrics;
    Clock& clock;
  };
  Pool(const QueueOptions& options, const Deps& deps)
      : options_(options), deps_(deps), queue_(options, deps.clock) {}

  ClientId AddClient(ClientSink* sink) ABSL_LOCKS_EXCLUDED(mu_);
  void Handle(ClientId client, const EvaluateRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The client sends nothing more, but waits for its answers.
  void HalfCloseClient(ClientId client) ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveClient(ClientId client) ABSL_LOCKS_EXCLUDED(mu_);

  // A stream of a worker; its first message must be `hello`, or it is refused.
  // All workers of a pool have one device class: verdicts of different devices
  // do not compare.
  uint64_t AddWorker(WorkerSink* sink) ABSL_LOCKS_EXCLUDED(mu_);
  void HandleWorker(uint64_t stream, const WorkerMessage& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveWorker(uint64_t stream) ABSL_LOCKS_EXCLUDED(mu_);

  // Expires leases, hands out retries that became due, sets the gauges. Call
  // several times a second.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);
  // Refuses new evaluations (retryable) from now on.
  void StartDraining() ABSL_LOCKS_EXCLUDED(mu_);
  // Nothing waits and nothing is leased.
  bool Idle() const;

  PoolStatusResponse Status() const;

 private:
  struct ClientState {
    ClientSink* sink;
    std::unordered_set<std::string> asked;  // digests of tasks
  };
  struct WorkerState {
    WorkerSink* sink;
    WorkerId id = 0;  // 0: no hello yet
    std::string device_class;
  };

  bool AcceptTask(ClientId client, const EvaluateRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Admit(ClientId client, const EvaluateRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(ClientId client, uint64_t request_id, const std::string& message,
            bool retryable) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Welcome(WorkerState& worker, const RegisterWorker& hello)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendTask(uint64_t stream, const std::string& digest)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sends what `effects` say, then leases whatever can be leased.
  void Apply(const Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendEffects(const Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Store(const Effects& effects) ABSL_LOCKS_EXCLUDED(mu_);
  WorkerSink* SinkOf(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const QueueOptions options_;
  const Deps deps_;
  EvaluationQueue queue_;
  // Held over a queue operation and the sends that follow from it, so that
  // peers see messages in the order of the decisions.
  mutable Mutex mu_;
  std::map<ClientId, ClientState> clients_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, WorkerState> streams_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, uint64_t> stream_of_ ABSL_GUARDED_BY(mu_);
  std::unordered_set<std::string> known_tasks_ ABSL_GUARDED_BY(mu_);
  std::string device_class_ ABSL_GUARDED_BY(mu_);  // "" until the first hello
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
};

// The part of the evaluation key that a request decides.
std::string EvaluationKey(const EvaluateRequest& request);

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_POOL_H_
