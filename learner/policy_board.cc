#include "learner/policy_board.h"

#include <utility>

#include "common/base/digest.h"

namespace dice {

WeightsIdentity PolicyBoard::Publish(int64_t version, std::string safetensors) {
  auto policy = std::make_shared<PublishedPolicy>();
  policy->identity.set_run_id(run_id_);
  policy->identity.set_incarnation(incarnation_);
  policy->identity.set_version(version);
  policy->identity.set_digest(Sha256Hex(safetensors));
  policy->safetensors = std::move(safetensors);
  WeightsIdentity identity = policy->identity;
  MutexLock lock(mu_);
  digests_[version] = identity.digest();
  held_.push_back(std::move(policy));
  if (held_.size() > keep_) held_.pop_front();
  changed_.NotifyAll();
  return identity;
}

std::shared_ptr<const PublishedPolicy> PolicyBoard::AwaitNewer(
    int64_t version, absl::Time deadline) {
  MutexLock lock(mu_);
  while (!closed_ && clock_.Now() < deadline &&
         (held_.empty() || held_.back()->identity.version() <= version)) {
    clock_.Await(changed_, mu_, deadline);
  }
  if (held_.empty() || held_.back()->identity.version() <= version) {
    return nullptr;
  }
  return held_.back();
}

std::shared_ptr<const PublishedPolicy> PolicyBoard::Find(
    const WeightsIdentity& identity) const {
  MutexLock lock(mu_);
  for (const auto& policy : held_) {
    const WeightsIdentity& i = policy->identity;
    if (i.run_id() == identity.run_id() &&
        i.incarnation() == identity.incarnation() &&
        i.version() == identity.version() && i.digest() == identity.digest()) {
      return policy;
    }
  }
  return nullptr;
}

bool PolicyBoard::Knows(const WeightsIdentity& identity) const {
  if (identity.run_id() != run_id_ || identity.incarnation() != incarnation_) {
    return false;
  }
  MutexLock lock(mu_);
  const auto it = digests_.find(identity.version());
  return it != digests_.end() && it->second == identity.digest();
}

int64_t PolicyBoard::version() const {
  MutexLock lock(mu_);
  return held_.empty() ? -1 : held_.back()->identity.version();
}

void PolicyBoard::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace dice
