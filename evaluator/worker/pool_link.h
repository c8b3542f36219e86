// The worker's stream to its pool: opened by the worker, opened again whenever
// it breaks.
#ifndef DICE_EVALUATOR_WORKER_POOL_LINK_H_
#define DICE_EVALUATOR_WORKER_POOL_LINK_H_

#include <grpcpp/channel.h>

#include <deque>
#include <functional>
#include <memory>
#include <stop_token>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/backoff.h"
#include "evaluator/worker/work_loop.h"
#include "proto/worker_service.grpc.pb.h"

namespace dice {

// Thread-safe. Results wait for the next stream; the latest ones of a stream
// that broke are sent again, because nobody knows whether they arrived: the
// pool ignores what it has already.
class PoolLink {
 public:
  // `hello` without `running`. `clock` outlives this.
  PoolLink(std::shared_ptr<grpc::Channel> channel, RegisterWorker hello,
           Clock& clock);

  // Never blocks.
  void Send(WorkerMessage message) ABSL_LOCKS_EXCLUDED(mu_);
  // Connects, registers, and hands what the pool sends to `loop`, again and
  // again until `stop` or Close. `on_connected` is called for each stream whose
  // hello went out.
  void Run(WorkLoop& loop, std::stop_token stop,
           const std::function<void()>& on_connected) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the pool, on this and every later stream, to lease nothing more.
  // Blocks until it said so, there is no stream, or `deadline`.
  void StartDraining(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);
  // Writes what is left, closes the stream and opens no other. Blocks until the
  // pool has read it all, there is no stream, or `deadline`.
  void Close(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Stream = grpc::ClientReaderWriter<WorkerMessage, PoolMessage>;

  // One stream from hello to its end; false: refused.
  bool RunStream(WorkLoop& loop, std::stop_token stop,
                 const std::function<void()>& on_connected)
      ABSL_LOCKS_EXCLUDED(mu_);
  void WriteLoop(Stream& stream, std::stop_token stop) ABSL_LOCKS_EXCLUDED(mu_);
  void PrepareOutbox() ABSL_LOCKS_EXCLUDED(mu_);
  bool closing() ABSL_LOCKS_EXCLUDED(mu_);

  const std::unique_ptr<WorkerService::Stub> stub_;
  const RegisterWorker hello_;
  Clock& clock_;
  Backoff backoff_;  // used by Run only
  Mutex mu_;
  CondVar changed_;
  std::deque<WorkerMessage> outbox_ ABSL_GUARDED_BY(mu_);
  // Latest results written to the current stream.
  std::deque<WorkerMessage> written_ ABSL_GUARDED_BY(mu_);
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool drain_answered_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_POOL_LINK_H_
