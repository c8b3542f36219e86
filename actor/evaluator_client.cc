#include "actor/evaluator_client.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "proto/evaluator_service.grpc.pb.h"

namespace dice {
namespace {

using Stream = grpc::ClientReaderWriter<EvaluateRequest, EvaluateResponse>;

class GrpcEvaluatorClient : public EvaluatorClient {
 public:
  GrpcEvaluatorClient(std::shared_ptr<grpc::Channel> channel,
                      const Options& options, Clock& clock)
      : options_(options),
        clock_(clock),
        channel_(std::move(channel)),
        stub_(EvaluatorService::NewStub(channel_)) {
    reader_ = StartThread(
        "evaluate", [this](std::stop_token stop) { ReconnectUntil(stop); });
  }

  ~GrpcEvaluatorClient() override { GrpcEvaluatorClient::Shutdown(); }

  void Shutdown() override {
    reader_.request_stop();
    {
      MutexLock lock(mu_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
      changed_.NotifyAll();
    }
    if (reader_.joinable()) reader_.join();
  }

  uint64_t Evaluate(Request request, Done done) override {
    MutexLock lock(mu_);
    const uint64_t id = ++last_id_;
    entries_[id] = {.request = std::move(request), .done = std::move(done)};
    to_send_.push_back(id);
    changed_.NotifyAll();
    return id;
  }

  void Forget(uint64_t id) override {
    MutexLock lock(mu_);
    entries_.erase(id);
  }

  size_t pending() const override {
    MutexLock lock(mu_);
    return entries_.size();
  }

  bool connected() const override {
    return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }

 private:
  struct Entry {
    Request request;
    Done done;
    int tries = 0;
    absl::Time sent_at = absl::InfinitePast();
  };

  void ReconnectUntil(std::stop_token stop) {
    Backoff backoff({.first = options_.first_wait,
                     .longest = options_.longest_wait,
                     .seed = static_cast<uint64_t>(getpid())});
    while (!stop.stop_requested()) {
      const absl::Status status = RunStream(backoff);
      if (stop.stop_requested()) return;
      DICE_LOG(kWarning) << "evaluator stream ended: " << status << "; "
                         << pending() << " evaluations will be sent again";
      if (!SleepUnlessStopped(clock_, backoff.Next(), stop)) return;
    }
  }

  // One stream, from its opening to its end.
  absl::Status RunStream(Backoff& backoff) {
    grpc::ClientContext context;
    {
      MutexLock lock(mu_);
      if (stopping_) return absl::CancelledError("stopped");
      context_ = &context;
    }
    const std::unique_ptr<Stream> stream = stub_->Evaluate(&context);
    {
      MutexLock lock(mu_);
      broken_ = false;
      later_.clear();
      to_send_.clear();
      tasks_.clear();
      for (const auto& [id, entry] : entries_) to_send_.push_back(id);
    }
    std::jthread writer =
        StartThread("evaluate-write", [&](std::stop_token) { Write(*stream); });
    EvaluateResponse response;
    while (stream->Read(&response)) {
      backoff.Reset();
      Handle(response);
    }
    {
      MutexLock lock(mu_);
      broken_ = true;
      changed_.NotifyAll();
    }
    context.TryCancel();  // in case the writer is blocked on flow control
    writer.join();
    const absl::Status status = FromGrpc(stream->Finish());
    MutexLock lock(mu_);
    context_ = nullptr;
    return status;
  }

  // Sends what there is to send until the stream is broken.
  void Write(Stream& stream) {
    EvaluateRequest message;
    while (NextMessage(&message)) {
      if (!stream.Write(message)) return;
    }
  }

  bool NextMessage(EvaluateRequest* message) {
    MutexLock lock(mu_);
    while (true) {
      if (stopping_ || broken_) return false;
      while (!later_.empty() && later_.begin()->first <= clock_.Now()) {
        to_send_.push_back(later_.begin()->second);
        later_.erase(later_.begin());
      }
      message->Clear();
      if (!tasks_.empty()) {
        *message->mutable_task() = *tasks_.front();
        tasks_.pop_front();
        return true;
      }
      while (!to_send_.empty()) {
        const uint64_t id = to_send_.front();
        to_send_.pop_front();
        const auto it = entries_.find(id);
        if (it == entries_.end()) continue;  // forgotten
        Entry& entry = it->second;
        if (entry.sent_at == absl::InfinitePast()) entry.sent_at = clock_.Now();
        message->set_request_id(id);
        message->set_candidate_source(entry.request.candidate);
        message->set_task_digest(entry.request.task_digest);
        *message->mutable_profile() = entry.request.profile;
        return true;
      }
      clock_.Await(
          changed_, mu_,
          later_.empty() ? absl::InfiniteFuture() : later_.begin()->first);
    }
  }

  void Handle(const EvaluateResponse& response) {
    Done done;
    Answer answer;
    {
      MutexLock lock(mu_);
      if (response.has_need_task()) {
        SendTaskLocked(response.need_task().task_digest());
        return;
      }
      const auto it = entries_.find(response.request_id());
      if (it == entries_.end()) return;  // forgotten, or answered twice
      Entry& entry = it->second;
      if (response.has_infra_error()) {
        const InfraError& error = response.infra_error();
        if (error.retryable() && ++entry.tries < options_.max_tries) {
          const absl::Duration wait =
              std::min(options_.first_wait * (int64_t{1} << (entry.tries - 1)),
                       options_.longest_wait);
          later_.emplace(clock_.Now() + wait, it->first);
          changed_.NotifyAll();
          return;
        }
        answer.infra_error =
            error.message().empty() ? "no reason given" : error.message();
      } else if (response.has_verdict()) {
        answer.verdict = response.verdict();
      } else {
        answer.infra_error = "the pool's answer is of an unknown kind";
      }
      answer.sent_at = entry.sent_at;
      answer.answered_at = clock_.Now();
      done = std::move(entry.done);
      entries_.erase(it);
    }
    done(std::move(answer));
  }

  void SendTaskLocked(const std::string& digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const auto& [id, entry] : entries_) {
      if (entry.request.task_digest != digest) continue;
      tasks_.push_back(entry.request.task);
      changed_.NotifyAll();
      return;
    }
  }

  const Options options_;
  Clock& clock_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<EvaluatorService::Stub> stub_;
  mutable Mutex mu_;
  CondVar changed_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::deque<uint64_t> to_send_ ABSL_GUARDED_BY(mu_);
  std::multimap<absl::Time, uint64_t> later_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<const Task>> tasks_ ABSL_GUARDED_BY(mu_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool broken_ ABSL_GUARDED_BY(mu_) = true;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EvaluatorClient>> ConnectEvaluator(
    const std::string& address, const EvaluatorClient::Options& options,
    Clock& clock) {
  TransportOptions transport;
  transport.allow_insecure = options.allow_insecure;
  DICE_ASSIGN_OR_RETURN(auto channel, CreateChannel(address, transport));
  return std::make_unique<GrpcEvaluatorClient>(std::move(channel), options,
                                               clock);
}

}  // namespace dice
