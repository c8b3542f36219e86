// gRPC on top of Pool, by the callback interface: an open stream holds memory,
// never a thread, so dead peers cannot use threads up. Keepalive ends them.
#ifndef DICE_EVALUATOR_POOL_POOL_SERVICE_H_
#define DICE_EVALUATOR_POOL_POOL_SERVICE_H_

#include "evaluator/pool/pool.h"
#include "proto/evaluator_service.grpc.pb.h"
#include "proto/worker_service.grpc.pb.h"

namespace dice {

// `pool` outlives the server that these are registered with. Thread-safe.
class EvaluatorServiceImpl final : public EvaluatorService::CallbackService {
 public:
  explicit EvaluatorServiceImpl(Pool& pool) : pool_(pool) {}
  grpc::ServerBidiReactor<EvaluateRequest, EvaluateResponse>* Evaluate(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* PoolStatus(grpc::CallbackServerContext* context,
                                       const PoolStatusRequest* request,
                                       PoolStatusResponse* response) override;

 private:
  Pool& pool_;
};

class WorkerServiceImpl final : public WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(Pool& pool) : pool_(pool) {}
  grpc::ServerBidiReactor<WorkerMessage, PoolMessage>* Work(
      grpc::CallbackServerContext* context) override;

 private:
  Pool& pool_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_POOL_SERVICE_H_
