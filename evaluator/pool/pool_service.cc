#include "evaluator/pool/pool_service.h"

#include <atomic>

#include "evaluator/pool/stream_reactor.h"

namespace dice {
namespace {

class EvaluateStream final
    : public StreamReactor<EvaluateRequest, EvaluateResponse> {
 public:
  explicit EvaluateStream(Pool& pool) : pool_(pool), id_(pool.AddClient(this)) {
    Begin();
  }
  // Nothing is sent any more once RemoveClient has returned.
  ~EvaluateStream() override { pool_.RemoveClient(id_); }

  void Send(EvaluateResponse response) override {
    const bool last_word = !response.has_need_task();
    StreamReactor::Send(std::move(response));
    if (last_word && --unanswered_ == 0 && reads_done_) Close();
  }

 private:
  void OnMessage(const EvaluateRequest& request) override {
    // A message that only brings a task is not answered.
    const bool asks =
        !request.has_task() || !request.candidate_source().empty();
    unanswered_ += asks;
    pool_.Handle(id_, request);
  }
  void OnReadsDone() override {
    // Holds the count above zero until the flag is set.
    ++unanswered_;
    reads_done_ = true;
    pool_.HalfCloseClient(id_);
    if (--unanswered_ == 0) Close();
  }

  Pool& pool_;
  std::atomic<int64_t> unanswered_{0};
  std::atomic<bool> reads_done_{false};
  const ClientId id_;  // last: the pool may send from here on
};

class WorkStream final : public StreamReactor<WorkerMessage, PoolMessage> {
 public:
  explicit WorkStream(Pool& pool) : pool_(pool), id_(pool.AddWorker(this)) {
    Begin();
  }
  ~WorkStream() override { pool_.RemoveWorker(id_); }

 private:
  void OnMessage(const WorkerMessage& message) override {
    pool_.HandleWorker(id_, message);
  }
  void OnReadsDone() override { Close(); }

  Pool& pool_;
  const uint64_t id_;
};

}  // namespace

grpc::ServerBidiReactor<EvaluateRequest, EvaluateResponse>*
EvaluatorServiceImpl::Evaluate(grpc::CallbackServerContext*) {
  return new EvaluateStream(pool_);
}

grpc::ServerUnaryReactor* EvaluatorServiceImpl::PoolStatus(
    grpc::CallbackServerContext* context, const PoolStatusRequest*,
    PoolStatusResponse* response) {
  *response = pool_.Status();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerBidiReactor<WorkerMessage, PoolMessage>* WorkerServiceImpl::Work(
    grpc::CallbackServerContext*) {
  return new WorkStream(pool_);
}

}  // namespace dice
