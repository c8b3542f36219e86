// LearnerService: the wire of LeaseTable and PolicyBoard. No torch in here.
#ifndef DICE_LEARNER_SERVICE_H_
#define DICE_LEARNER_SERVICE_H_

#include <functional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "learner/lease_table.h"
#include "learner/metrics.h"
#include "learner/policy_board.h"
#include "proto/learner_service.grpc.pb.h"

namespace dice {

// Thread-safe. Blocking calls hold a thread for at most kLongestWait (LeaseTasks)
// or until their peer is seen to be gone (WatchPolicy).
class LearnerServiceImpl final : public LearnerService::Service {
 public:
  struct Deps {  // all borrowed, outlive this
    LeaseTable& leases;
    PolicyBoard& policies;
    LearnerMetrics& metrics;
    Clock& clock;
    std::function<LearnerStatus()> status;  // thread-safe
  };
  static constexpr absl::Duration kLongestWait = absl::Seconds(10);
  static constexpr size_t kChunkBytes = 1 << 20;

  explicit LearnerServiceImpl(Deps deps) : deps_(std::move(deps)) {}

  grpc::Status LeaseTasks(grpc::ServerContext* context,
                          const LeaseTasksRequest* request,
                          LeaseTasksResponse* response) override;
  grpc::Status RenewLeases(grpc::ServerContext* context,
                           const RenewLeasesRequest* request,
                           RenewLeasesResponse* response) override;
  grpc::Status PushGroup(grpc::ServerContext* context,
                         grpc::ServerReader<PushGroupMessage>* reader,
                         PushGroupResponse* response) override;
  grpc::Status WatchPolicy(grpc::ServerContext* context,
                           const WatchPolicyRequest* request,
                           grpc::ServerWriter<PolicyVersion>* writer) override;
  grpc::Status FetchWeights(grpc::ServerContext* context,
                            const FetchWeightsRequest* request,
                            grpc::ServerWriter<WeightChunk>* writer) override;
  grpc::Status Status(grpc::ServerContext* context,
                      const LearnerStatusRequest* request,
                      LearnerStatus* response) override;

  // Blocks until every actor that ever asked for work was told that the run is
  // finished, or `deadline`.
  void AwaitFarewell(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const Deps deps_;
  Mutex mu_;
  CondVar changed_;
  std::set<std::string> untold_ ABSL_GUARDED_BY(mu_);  // actors
};

}  // namespace dice

#endif  // DICE_LEARNER_SERVICE_H_
