// Who samples what: leases, their deadlines, fencing, and which results count.
// Pure logic without I/O; LearnerService is its wire, the driver its owner.
#ifndef DICE_LEARNER_LEASE_TABLE_H_
#define DICE_LEARNER_LEASE_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/learner_service.pb.h"

namespace dice {

// What becomes of a pushed group. Anything but kAccepted is told to the actor
// as a reason and counted; it never reaches a reward.
enum class PushResult {
  kAccepted,
  kDecided,          // someone else was first, or the lease is of another run
  kMalformed,        // wrong number of rollouts, or vectors that do not match
  kUnknownIdentity,  // sampled by weights that this run did not publish
  kStale,            // sampled by weights older than the lease allows
};
// "accepted", "expired", "malformed", "unknown identity", "stale".
const char* PushReason(PushResult result);

// A group that came back, rollouts in sample order; or one that is given up.
struct CompletedGroup {
  Lease lease;
  std::vector<Rollout> rollouts;
  bool lost = false;  // too many attempts: no rollouts
};

// Work is offered by the driver (Offer), handed to actors (Take), renewed by
// progress (Renew), and comes back exactly once (Complete, Await). A lease that
// is not renewed by its deadline, or whose result does not count, is offered
// again with attempt + 1, ahead of new work. Thread-safe.
class LeaseTable {
 public:
  struct Options {
    absl::Duration lease_duration = absl::Seconds(60);
    // A lease that fails this often is given up, not retried in silence.
    int max_attempts = 8;
  };
  LeaseTable(const Options& options, Clock& clock)
      : options_(options), clock_(clock) {}

  // Appends work with a fresh lease_id. The caller bounds how much: admission
  // is the GroupPlanner's.
  void Offer(Lease lease) ABSL_LOCKS_EXCLUDED(mu_);
  // Withdraws everything that was offered or leased and what is not yet
  // awaited; its holders learn it at their next renewal or push.
  void Withdraw() ABSL_LOCKS_EXCLUDED(mu_);
  // Up to `max` leases; blocks until there is one, `deadline`, or Close().
  std::vector<Lease> Take(int max, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Extends leases; returns those that are not (or no longer) held.
  std::vector<std::string> Renew(const std::vector<std::string>& ids)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes a group back. The result of an older attempt counts while its work is
  // undecided. `known_identity`: this run published the weights of every
  // rollout.
  PushResult Complete(const std::string& lease_id, int attempt,
                      std::vector<Rollout> rollouts, bool known_identity)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The next completed group, in order of arrival; nullopt at `deadline` or
  // after Close().
  std::optional<CompletedGroup> Await(absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Offered, leased or completed and not yet awaited.
  int64_t outstanding() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t expired_total() const ABSL_LOCKS_EXCLUDED(mu_);
  // When someone last asked for work; InfinitePast before the first.
  absl::Time last_asked() const ABSL_LOCKS_EXCLUDED(mu_);
  // Wakes everyone; Take returns nothing from now on.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Held {
    Lease lease;
    absl::Time deadline;
  };
  void OfferAgainLocked(Lease lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ExpireLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Time NextExpiryLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Clock& clock_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Lease> offered_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mu_);
  std::deque<CompletedGroup> completed_ ABSL_GUARDED_BY(mu_);
  int64_t expired_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time last_asked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dice

#endif  // DICE_LEARNER_LEASE_TABLE_H_
