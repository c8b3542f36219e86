#include "learner/lease_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"

namespace dice {
namespace {

bool SameLengths(const Response& r) {
  const int n = r.token_ids_size();
  return r.steps_size() == n && r.logprobs_size() == n &&
         r.num_trained() >= 0 && r.num_trained() <= n;
}

// Every sample of the lease once, each either with a whole response or with the
// trouble that lost it.
bool WellFormed(const Lease& lease, const std::vector<Rollout>& rollouts) {
  std::set<int> seen;
  for (const Rollout& r : rollouts) {
    if (!seen.insert(r.sample_index()).second) return false;
    if (!SameLengths(r.response())) return false;
    if (r.response().token_ids_size() == 0 && r.infra_error().empty()) {
      return false;
    }
  }
  return static_cast<int>(seen.size()) == lease.num_samples() &&
         *seen.begin() == lease.first_sample() &&
         *seen.rbegin() == lease.first_sample() + lease.num_samples() - 1;
}

bool Stale(const Lease& lease, const std::vector<Rollout>& rollouts) {
  for (const Rollout& r : rollouts) {
    if (r.response().token_ids_size() == 0) continue;
    if (r.response().identity().version() < lease.min_version()) return true;
  }
  return false;
}

}  // namespace

const char* PushReason(PushResult result) {
  switch (result) {
    case PushResult::kAccepted:
      return "accepted";
    case PushResult::kDecided:
      return "expired";
    case PushResult::kMalformed:
      return "malformed";
    case PushResult::kUnknownIdentity:
      return "unknown identity";
    case PushResult::kStale:
      return "stale";
  }
  return "";
}

void LeaseTable::Offer(Lease lease) {
  MutexLock lock(mu_);
  lease.set_deadline_s(absl::ToDoubleSeconds(options_.lease_duration));
  offered_.push_back(std::move(lease));
  changed_.NotifyAll();
}

void LeaseTable::Withdraw() {
  MutexLock lock(mu_);
  offered_.clear();
  held_.clear();
  completed_.clear();
}

void LeaseTable::OfferAgainLocked(Lease lease) {
  lease.set_attempt(lease.attempt() + 1);
  if (lease.attempt() >= options_.max_attempts) {
    DICE_LOG(kError) << "lease " << lease.lease_id() << " is given up after "
                     << lease.attempt() << " attempts";
    completed_.push_back({std::move(lease), {}, /*lost=*/true});
  } else {
    // Ahead of new work: older tasks must not fall behind.
    offered_.push_front(std::move(lease));
  }
  changed_.NotifyAll();
}

void LeaseTable::ExpireLocked() {
  const absl::Time now = clock_.Now();
  for (auto it = held_.begin(); it != held_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    Lease lease = std::move(it->second.lease);
    it = held_.erase(it);
    ++expired_;
    DICE_LOG(kWarning) << "lease " << lease.lease_id() << " attempt "
                       << lease.attempt() << " expired";
    OfferAgainLocked(std::move(lease));
  }
}

absl::Time LeaseTable::NextExpiryLocked() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, held] : held_) next = std::min(next, held.deadline);
  return next;
}

std::vector<Lease> LeaseTable::Take(int max, absl::Time deadline) {
  MutexLock lock(mu_);
  last_asked_ = clock_.Now();
  while (true) {
    ExpireLocked();
    if (closed_ || !offered_.empty() || clock_.Now() >= deadline) break;
    clock_.Await(changed_, mu_, std::min(deadline, NextExpiryLocked()));
  }
  std::vector<Lease> out;
  while (!closed_ && !offered_.empty() && static_cast<int>(out.size()) < max) {
    Lease lease = std::move(offered_.front());
    offered_.pop_front();
    held_[lease.lease_id()] = {lease, clock_.Now() + options_.lease_duration};
    out.push_back(std::move(lease));
  }
  return out;
}

std::vector<std::string> LeaseTable::Renew(
    const std::vector<std::string>& ids) {
  MutexLock lock(mu_);
  ExpireLocked();
  std::vector<std::string> lost;
  for (const std::string& id : ids) {
    const auto it = held_.find(id);
    if (it == held_.end()) {
      lost.push_back(id);
    } else {
      it->second.deadline = clock_.Now() + options_.lease_duration;
    }
  }
  return lost;
}

PushResult LeaseTable::Complete(const std::string& lease_id, int attempt,
                                std::vector<Rollout> rollouts,
                                bool known_identity) {
  MutexLock lock(mu_);
  const auto held = held_.find(lease_id);
  const auto waiting =
      std::find_if(offered_.begin(), offered_.end(),
                   [&](const Lease& l) { return l.lease_id() == lease_id; });
  const bool is_held = held != held_.end();
  if (!is_held && waiting == offered_.end()) return PushResult::kDecided;
  Lease lease = is_held ? held->second.lease : *waiting;
  if (attempt > lease.attempt()) return PushResult::kDecided;

  PushResult result = PushResult::kAccepted;
  if (!WellFormed(lease, rollouts)) {
    result = PushResult::kMalformed;
  } else if (!known_identity) {
    result = PushResult::kUnknownIdentity;
  } else if (Stale(lease, rollouts)) {
    result = PushResult::kStale;
  }
  if (result != PushResult::kAccepted) {
    // The holder itself failed: on to the next attempt. A bad late result of an
    // earlier one changes nothing.
    if (is_held && attempt == lease.attempt()) {
      held_.erase(held);
      OfferAgainLocked(std::move(lease));
    }
    return result;
  }
  if (is_held) {
    held_.erase(held);
  } else {
    offered_.erase(waiting);  // expired, but nobody else has begun
  }
  std::sort(rollouts.begin(), rollouts.end(),
            [](const Rollout& a, const Rollout& b) {
              return a.sample_index() < b.sample_index();
            });
  completed_.push_back({std::move(lease), std::move(rollouts)});
  changed_.NotifyAll();
  return PushResult::kAccepted;
}

std::optional<CompletedGroup> LeaseTable::Await(absl::Time deadline) {
  MutexLock lock(mu_);
  while (true) {
    ExpireLocked();
    if (!completed_.empty() || closed_ || clock_.Now() >= deadline) break;
    clock_.Await(changed_, mu_, std::min(deadline, NextExpiryLocked()));
  }
  if (completed_.empty()) return std::nullopt;
  CompletedGroup group = std::move(completed_.front());
  completed_.pop_front();
  return group;
}

int64_t LeaseTable::outstanding() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(offered_.size() + held_.size() +
                              completed_.size());
}

int64_t LeaseTable::expired_total() const {
  MutexLock lock(mu_);
  return expired_;
}

absl::Time LeaseTable::last_asked() const {
  MutexLock lock(mu_);
  return last_asked_;
}

void LeaseTable::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

bool LeaseTable::closed() const {
  MutexLock lock(mu_);
  return closed_;
}

}  // namespace dice
