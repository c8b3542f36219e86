// An actor: leases tasks, samples G responses for each, sends every candidate
// to the evaluators the moment it is there, and pushes the group back when each
// sample has a verdict or is lost. Any learner, any pool: both may be away for
// a while, in any order, and nothing here is worth keeping when this process
// dies.
#ifndef DICE_ACTOR_ACTOR_H_
#define DICE_ACTOR_ACTOR_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actor/engine.h"
#include "actor/evaluator_client.h"
#include "actor/group.h"
#include "actor/learner_client.h"
#include "actor/metrics.h"
#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/text/tokenizer.h"

namespace dice {

class Actor {
 public:
  struct Options {
    // Leases more while fewer responses than this wait for the sampler.
    int64_t low_water = 512;
    // Groups that are leased and not yet pushed.
    size_t max_groups = 128;
    absl::Duration lease_wait = absl::Seconds(2);
    // Renewals are at most this far apart (and a third of the lease).
    absl::Duration renew_every = absl::Seconds(5);
    // How long a stopped actor goes on with what it has.
    absl::Duration drain = absl::Seconds(20);
  };
  // Borrowed; they outlive this.
  struct Deps {
    LearnerClient& learner;
    EvaluatorClient& evaluator;
    const Tokenizer& tokenizer;
    ActorMetrics& metrics;
    Clock& clock;
  };
  Actor(const Options& options, const Deps& deps)
      : options_(options), deps_(deps), complete_(options.max_groups) {}

  // To be handed to the engine that Run gets.
  Engine::Callbacks engine_callbacks();
  // Blocks. OK: the run is over, or Stop was called and the drain has ended. An
  // error: the learner refuses this actor for good, or the policy does not fit
  // the model config. Ends every call to the learner. `engine` is destroyed in
  // here, after its last callback.
  absl::Status Run(std::unique_ptr<Engine> engine);
  // Leases nothing more and lets Run return after the drain. Any thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void LeaseLoop(std::stop_token stop);
  void RenewLoop(std::stop_token stop);
  void PushLoop(std::stop_token stop);
  // How many groups to lease now; blocks until it is not 0. 0: draining.
  int AwaitRoom() ABSL_LOCKS_EXCLUDED(mu_);
  void StartGroup(const Lease& lease) ABSL_LOCKS_EXCLUDED(mu_);
  // Holds for the group's lease from now on, if it is known. For a lease that
  // expired and came back to us: the work is kept.
  bool AdoptLease(const Lease& lease) ABSL_LOCKS_EXCLUDED(mu_);
  void OnResponse(uint64_t group, int sample, Response response)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(uint64_t group, int sample, EvaluatorClient::Answer answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnProgress() ABSL_LOCKS_EXCLUDED(mu_);
  // A rollout is decided; pushes the group with its last one.
  void CountDown(uint64_t group) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(const std::vector<std::string>& lease_ids)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for the end, then for the drain; returns what Run returns.
  absl::Status AwaitEnd() ABSL_LOCKS_EXCLUDED(mu_);
  void SetGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const Deps deps_;
  std::unique_ptr<Engine> engine_;  // set before any thread, reset after all
  BoundedQueue<Group> complete_;

  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, Group> groups_ ABSL_GUARDED_BY(mu_);
  uint64_t last_group_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t unsampled_ ABSL_GUARDED_BY(mu_) = 0;       // over all groups
  int unpushed_ ABSL_GUARDED_BY(mu_) = 0;            // complete ones
  int samples_per_lease_ ABSL_GUARDED_BY(mu_) = 16;  // of the last one
  absl::Duration renew_every_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_ACTOR_ACTOR_H_
