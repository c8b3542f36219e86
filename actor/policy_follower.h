// Keeps the engine's weights up with the learner's policy: one thread watches
// versions, another fetches the newest one, skipping those that were overtaken.
#ifndef DICE_ACTOR_POLICY_FOLLOWER_H_
#define DICE_ACTOR_POLICY_FOLLOWER_H_

#include <optional>
#include <thread>

#include "actor/engine.h"
#include "actor/learner_client.h"
#include "actor/metrics.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace dice {

// Thread-safe. Destroy after LearnerClient::Shutdown, which ends its calls.
class PolicyFollower {
 public:
  struct Deps {
    LearnerClient& learner;
    Engine& engine;
    ActorMetrics& metrics;
    Clock& clock;
  };
  explicit PolicyFollower(const Deps& deps);
  ~PolicyFollower();

 private:
  void Watch(std::stop_token stop);
  void Fetch(std::stop_token stop);
  // Tells the engine whether its weights belong to the learner we talk to.
  void Announce(const std::optional<PolicyVersion>& version);

  const Deps deps_;
  Mutex mu_;
  CondVar changed_;
  // Nullopt while the learner is away.
  std::optional<PolicyVersion> announced_ ABSL_GUARDED_BY(mu_);
  std::optional<WeightsIdentity> held_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread watcher_, fetcher_;
};

}  // namespace dice

#endif  // DICE_ACTOR_POLICY_FOLLOWER_H_
