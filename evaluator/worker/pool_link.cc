#include "evaluator/worker/pool_link.h"

#include <grpcpp/client_context.h>
#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/thread.h"

namespace dice {

PoolLink::PoolLink(std::shared_ptr<grpc::Channel> channel, RegisterWorker hello,
                   Clock& clock)
    : stub_(WorkerService::NewStub(channel)),
      hello_(std::move(hello)),
      clock_(clock),
      backoff_({.seed = static_cast<uint64_t>(getpid())}) {}

void PoolLink::Send(WorkerMessage message) {
  MutexLock lock(mu_);
  // Without a stream only results are worth keeping; Resume covers the rest.
  if (!connected_ && !message.has_result()) return;
  outbox_.push_back(std::move(message));
  changed_.NotifyAll();
}

void PoolLink::StartDraining(absl::Time deadline) {
  WorkerMessage message;
  message.mutable_draining();
  MutexLock lock(mu_);
  draining_ = true;
  if (connected_) outbox_.push_back(std::move(message));
  changed_.NotifyAll();
  while (connected_ && !drain_answered_ && clock_.Now() < deadline) {
    clock_.Await(changed_, mu_, deadline);
  }
}

void PoolLink::Close(absl::Time deadline) {
  MutexLock lock(mu_);
  closing_ = true;
  changed_.NotifyAll();
  while (connected_ && clock_.Now() < deadline) {
    clock_.Await(changed_, mu_, deadline);
  }
}

void PoolLink::Run(WorkLoop& loop, std::stop_token stop,
                   const std::function<void()>& on_connected) {
  while (!stop.stop_requested() && !closing()) {
    if (RunStream(loop, stop, on_connected)) backoff_.Reset();
    SleepUnlessStopped(clock_, backoff_.Next(), stop);
  }
}

bool PoolLink::closing() {
  MutexLock lock(mu_);
  return closing_;
}

// What a new stream begins with: results of the broken one, then results that
// came since. Everything else was about the old stream.
void PoolLink::PrepareOutbox() {
  WorkerMessage draining;
  draining.mutable_draining();
  MutexLock lock(mu_);
  std::erase_if(outbox_,
                [](const WorkerMessage& m) { return !m.has_result(); });
  outbox_.insert(outbox_.begin(), written_.begin(), written_.end());
  written_.clear();
  if (draining_) outbox_.push_front(draining);
  connected_ = true;
}

bool PoolLink::RunStream(WorkLoop& loop, std::stop_token stop,
                         const std::function<void()>& on_connected) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  const std::unique_ptr<Stream> stream = stub_->Work(&context);
  PrepareOutbox();
  WorkerMessage hello;
  *hello.mutable_hello() = hello_;
  for (RunningEvaluation& running : loop.Resume()) {
    *hello.mutable_hello()->add_running() = std::move(running);
  }
  bool refused = false;
  if (stream->Write(hello)) {
    on_connected();
    std::jthread writer = StartThread(
        "pool-writer", [&](std::stop_token s) { WriteLoop(*stream, s); });
    PoolMessage message;
    while (!refused && stream->Read(&message)) {
      refused = message.has_refused();
      if (message.has_drain()) {
        MutexLock lock(mu_);
        drain_answered_ = true;
        changed_.NotifyAll();
      } else if (!refused) {
        loop.Handle(message);
      }
    }
    if (refused) DICE_LOG(kError) << "the pool refused: " << message.refused();
    context.TryCancel();  // frees a Write that is stuck
    writer.request_stop();
    MutexLock lock(mu_);
    changed_.NotifyAll();
  }
  {
    MutexLock lock(mu_);
    connected_ = false;
    changed_.NotifyAll();
  }
  const grpc::Status status = stream->Finish();
  if (!stop.stop_requested() && !closing()) {
    DICE_LOG(kWarning) << "the stream to the pool ended: "
                       << status.error_message();
  }
  return !refused;
}

void PoolLink::WriteLoop(Stream& stream, std::stop_token stop) {
  while (true) {
    WorkerMessage message;
    {
      MutexLock lock(mu_);
      while (outbox_.empty() && !closing_ && !stop.stop_requested()) {
        changed_.Wait(mu_);
      }
      if (stop.stop_requested()) return;
      if (outbox_.empty()) break;
      message = std::move(outbox_.front());
      outbox_.pop_front();
      if (message.has_result()) {
        written_.push_back(message);
        const size_t keep = 2 * static_cast<size_t>(hello_.slots());
        if (written_.size() > keep) written_.pop_front();
      }
    }
    if (!stream.Write(message)) return;
  }
  // A cancelled stream may lose what was written: the pool ends it, having read
  // everything.
  stream.WritesDone();
}

}  // namespace dice
