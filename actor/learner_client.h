// The actor's view of LearnerService, without gRPC types, so that the code
// around it can be tested with a fake and compiled next to LibTorch.
#ifndef DICE_ACTOR_LEARNER_CLIENT_H_
#define DICE_ACTOR_LEARNER_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/learner_service.pb.h"

namespace dice {

// Thread-safe. No call is repeated in here: UNAVAILABLE and DEADLINE_EXCEEDED
// pass by themselves, and the caller decides when to try again.
// FAILED_PRECONDITION: the learner speaks another protocol version.
class LearnerClient {
 public:
  virtual ~LearnerClient() = default;

  // Blocks up to `wait` (and a little) for work.
  virtual absl::StatusOr<LeaseTasksResponse> LeaseTasks(
      int max_leases, absl::Duration wait) = 0;
  // Returns the ids that are lost.
  virtual absl::StatusOr<std::vector<std::string>> RenewLeases(
      const std::vector<std::string>& lease_ids) = 0;
  // All rollouts of one lease. Repeating it is harmless.
  virtual absl::StatusOr<PushGroupResponse> PushGroup(
      const Lease& lease, const std::vector<Rollout>& rollouts) = 0;
  // Calls `on_version` on this thread for the current policy and each newer
  // one; returns, never OK, when the stream ends.
  virtual absl::Status WatchPolicy(
      const std::function<void(const PolicyVersion&)>& on_version) = 0;
  // The safetensors bytes of `version`, verified piece by piece and as a whole
  // against identity.digest. NOT_FOUND: the learner has newer weights by now.
  // DATA_LOSS names what did not fit.
  virtual absl::StatusOr<std::string> FetchWeights(
      const PolicyVersion& version) = 0;
  // Cancels the calls in flight and every later one (CANCELLED).
  virtual void Shutdown() = 0;
};

// `actor` is this actor's name on the wire. INVALID_ARGUMENT: plaintext to
// another machine that `allow_insecure` does not permit.
absl::StatusOr<std::unique_ptr<LearnerClient>> ConnectLearner(
    const std::string& address, const std::string& actor, bool allow_insecure);

}  // namespace dice

#endif  // DICE_ACTOR_LEARNER_CLIENT_H_
