// The policies that this run published: their bytes while actors may want them,
// their identities for ever. Thread-safe.
#ifndef DICE_LEARNER_POLICY_BOARD_H_
#define DICE_LEARNER_POLICY_BOARD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/rollout.pb.h"

namespace dice {

struct PublishedPolicy {
  WeightsIdentity identity;
  std::string safetensors;
};

class PolicyBoard {
 public:
  // `incarnation` tells a restarted run's versions from its earlier ones. The
  // bytes of the newest `keep` policies are held.
  PolicyBoard(std::string run_id, int64_t incarnation, Clock& clock,
              size_t keep = 2)
      : run_id_(std::move(run_id)),
        incarnation_(incarnation),
        keep_(keep),
        clock_(clock) {}

  // Identity digest: SHA-256 of `safetensors`. Versions ascend.
  WeightsIdentity Publish(int64_t version, std::string safetensors)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The newest policy once it is newer than `version`; nullptr when there is
  // none at `deadline` or after Close(). Version -1: any.
  std::shared_ptr<const PublishedPolicy> AwaitNewer(int64_t version,
                                                    absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  // nullptr: not published here, or its bytes are no longer held.
  std::shared_ptr<const PublishedPolicy> Find(
      const WeightsIdentity& identity) const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether this run published it, held or not.
  bool Knows(const WeightsIdentity& identity) const ABSL_LOCKS_EXCLUDED(mu_);
  // -1 before the first.
  int64_t version() const ABSL_LOCKS_EXCLUDED(mu_);
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  const std::string& run_id() const { return run_id_; }
  int64_t incarnation() const { return incarnation_; }

 private:
  const std::string run_id_;
  const int64_t incarnation_;
  const size_t keep_;
  Clock& clock_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::shared_ptr<const PublishedPolicy>> held_
      ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::string> digests_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dice

#endif  // DICE_LEARNER_POLICY_BOARD_H_
