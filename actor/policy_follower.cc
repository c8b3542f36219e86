#include "actor/policy_follower.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rpc/backoff.h"

namespace dice {
namespace {

bool SameLearner(const WeightsIdentity& a, const WeightsIdentity& b) {
  return a.run_id() == b.run_id() && a.incarnation() == b.incarnation();
}

bool Same(const WeightsIdentity& a, const WeightsIdentity& b) {
  return SameLearner(a, b) && a.version() == b.version() &&
         a.digest() == b.digest();
}

Backoff NewBackoff() {
  return Backoff({.seed = static_cast<uint64_t>(getpid())});
}

}  // namespace

PolicyFollower::PolicyFollower(const Deps& deps) : deps_(deps) {
  watcher_ = StartThread("policy-watch",
                         [this](std::stop_token stop) { Watch(stop); });
  fetcher_ = StartThread("policy-fetch",
                         [this](std::stop_token stop) { Fetch(stop); });
}

PolicyFollower::~PolicyFollower() {
  watcher_.request_stop();
  fetcher_.request_stop();
  MutexLock lock(mu_);
  stopping_ = true;
  changed_.NotifyAll();
}

void PolicyFollower::Watch(std::stop_token stop) {
  Backoff backoff = NewBackoff();
  while (!stop.stop_requested()) {
    const absl::Status status =
        deps_.learner.WatchPolicy([&](const PolicyVersion& version) {
          backoff.Reset();
          Announce(version);
        });
    Announce(std::nullopt);
    if (stop.stop_requested()) return;
    DICE_LOG(kDebug) << "policy stream: " << status;
    SleepUnlessStopped(deps_.clock, backoff.Next(), stop);
  }
}

void PolicyFollower::Announce(const std::optional<PolicyVersion>& version) {
  MutexLock lock(mu_);
  announced_ = version;
  deps_.engine.SetCurrent(announced_ && held_ &&
                          SameLearner(announced_->identity(), *held_));
  changed_.NotifyAll();
}

void PolicyFollower::Fetch(std::stop_token stop) {
  Backoff backoff = NewBackoff();
  while (true) {
    PolicyVersion wanted;
    {
      MutexLock lock(mu_);
      while (!stopping_ &&
             (!announced_ || (held_ && Same(announced_->identity(), *held_)))) {
        changed_.Wait(mu_);
      }
      if (stopping_) return;
      wanted = *announced_;
    }
    const absl::Time start = deps_.clock.Now();
    absl::StatusOr<std::string> bytes = deps_.learner.FetchWeights(wanted);
    if (!bytes.ok()) {
      if (stop.stop_requested()) return;
      // NOT_FOUND: overtaken, and the newer version is on its way to us.
      DICE_LOG(kWarning) << "policy " << wanted.identity().version() << ": "
                         << bytes.status();
      deps_.metrics.weights_failures.Increment();
      SleepUnlessStopped(deps_.clock, backoff.Next(), stop);
      continue;
    }
    backoff.Reset();
    deps_.metrics.weights_seconds.Observe(
        absl::ToDoubleSeconds(deps_.clock.Now() - start));
    deps_.metrics.policy_version.Set(
        static_cast<double>(wanted.identity().version()));
    DICE_LOG(kDebug) << "policy " << wanted.identity().version() << ", "
                     << bytes->size() << " bytes";
    deps_.engine.SetWeights(wanted.identity(), *std::move(bytes));
    MutexLock lock(mu_);
    held_ = wanted.identity();
    deps_.engine.SetCurrent(announced_ &&
                            SameLearner(announced_->identity(), *held_));
  }
}

}  // namespace dice
