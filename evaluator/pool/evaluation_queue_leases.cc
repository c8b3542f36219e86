// EvaluationQueue: who gets what, and how it comes back.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "evaluator/pool/evaluation_queue.h"

namespace dice {

// --------------------------------------------------------------------- leases

WorkerId EvaluationQueue::PickWorker(const Entry* retry) {
  const bool alone = retry != nullptr && retry->alone;
  WorkerId best = 0, last_resort = 0;
  int most_free = 0;
  bool other_alive = false;  // one that has not failed this evaluation
  for (const auto& [id, w] : workers_) {
    if (w.draining || w.suspect) continue;
    const bool failed = retry && retry->failed_on.count(w.hello.name()) > 0;
    other_alive |= !failed;
    const int used = static_cast<int>(w.leased.size());
    const int free = alone ? used == 0 : w.hello.slots() - used;
    const bool reserved_for_other =
        !w.reserved_for.empty() &&
        (retry == nullptr || w.reserved_for != retry->request.key);
    if (free <= 0 || reserved_for_other) continue;
    if (failed) {
      last_resort = id;
    } else if (free > most_free) {
      best = id;
      most_free = free;
    }
  }
  return best != 0 || other_alive ? best : last_resort;
}

// Lets one worker run empty for `e`; at most half of them at a time.
void EvaluationQueue::Reserve(const Entry& e) {
  Worker* best = nullptr;
  int live = 0, reserved = 0;
  for (auto& [id, w] : workers_) {
    if (w.reserved_for == e.request.key) return;
    if (w.draining || w.suspect) continue;
    ++live;
    if (!w.reserved_for.empty()) {
      ++reserved;
    } else if (best == nullptr || w.leased.size() < best->leased.size()) {
      best = &w;
    }
  }
  if (best != nullptr && reserved < std::max(1, live / 2)) {
    best->reserved_for = e.request.key;
  }
}

std::optional<Assignment> EvaluationQueue::LeaseNext() {
  MutexLock lock(mu_);
  WorkerId worker = 0;
  if (Entry* e = NextRetry(&worker)) return Lease(*e, worker);
  worker = PickWorker(nullptr);
  if (worker == 0) return std::nullopt;
  Entry* e = NextInLine();
  if (e == nullptr) return std::nullopt;
  return Lease(*e, worker);
}

Assignment EvaluationQueue::Lease(Entry& e, WorkerId worker) {
  LeaveLine(e);
  e.attempt = ++e.last_attempt;
  Hold(e, worker);
  e.queue_time = e.leased_at - e.submitted;
  Assignment out{.worker = worker, .cache_checked = e.request.cache_checked};
  out.lease.set_key(e.request.key);
  out.lease.set_attempt(e.attempt);
  out.lease.set_candidate_source(e.request.candidate_source);
  out.lease.set_task_digest(e.request.task_digest);
  *out.lease.mutable_profile() = e.request.profile;
  out.lease.set_deadline_s(absl::ToDoubleSeconds(options_.lease));
  out.lease.set_alone(e.alone);
  return out;
}

void EvaluationQueue::Hold(Entry& e, WorkerId id) {
  Worker& worker = workers_.at(id);
  e.state = State::kLeased;
  e.worker = id;
  e.leased_at = clock_.Now();
  e.deadline = e.leased_at + options_.lease;
  worker.leased.insert(e.request.key);
  if (e.alone) worker.reserved_for = e.request.key;
  ++leased_;
}

void EvaluationQueue::Release(Entry& e) {
  if (e.state != State::kLeased) return;
  --leased_;
  const auto it = workers_.find(e.worker);
  if (it == workers_.end()) return;
  it->second.leased.erase(e.request.key);
  if (it->second.reserved_for == e.request.key) it->second.reserved_for.clear();
}

bool EvaluationQueue::Adopt(WorkerId id, const RunningEvaluation& running) {
  const auto [it, fresh] = entries_.try_emplace(running.key());
  Entry& e = it->second;
  if (fresh) {
    e.request.key = running.key();
    e.has_content = false;
    e.submitted = clock_.Now();
  } else if (e.state == State::kLeased || e.alone) {
    return false;
  } else {
    LeaveLine(e);
  }
  e.attempt = running.attempt();
  e.last_attempt = std::max(e.last_attempt, running.attempt());
  Hold(e, id);
  return true;
}

void EvaluationQueue::TakeBack(Entry& e, Requeue why, Effects* effects) {
  Release(e);
  e.state = State::kRetry;
  e.ticket = next_ticket_++;
  ++queued_;
  if (e.waiters.empty()) {
    LeaveLine(e);
    Erase(e);
    return;
  }
  const bool lost =
      why == Requeue::kWorkerLost || why == Requeue::kLeaseExpired;
  if (lost && ++e.losses > options_.max_worker_losses) {
    GiveUp(e, absl::StrCat("lost with its worker ", e.losses, " times"),
           effects);
    return;
  }
  // Its last chance, and that of those who only sat beside it: what takes its
  // worker along now is guilty.
  e.alone |= e.losses == options_.max_worker_losses;
  retries_.emplace_back(e.request.key, e.ticket);
  effects->requeues.push_back(why);
}

// -------------------------------------------------------------------- workers

WorkerId EvaluationQueue::AddWorker(const RegisterWorker& hello,
                                    Effects* effects) {
  MutexLock lock(mu_);
  const WorkerId id = next_worker_++;
  std::vector<WorkerId> stale;
  for (const auto& [other, w] : workers_) {
    if (w.hello.name() == hello.name()) stale.push_back(other);
  }
  workers_[id].hello = hello;
  workers_[id].hello.clear_running();
  // An older stream of the same process, not yet noticed dead, hands over.
  for (const RunningEvaluation& running : hello.running()) {
    const auto it = entries_.find(running.key());
    if (it != entries_.end() && it->second.state == State::kLeased &&
        std::count(stale.begin(), stale.end(), it->second.worker) > 0) {
      Release(it->second);
      Hold(it->second, id);
    } else if (!Adopt(id, running)) {
      effects->cancels.push_back({id, running.key()});
    }
  }
  for (const WorkerId old : stale) {
    for (const std::string& key : std::set(workers_.at(old).leased)) {
      TakeBack(entries_.at(key), Requeue::kWorkerLost, effects);
    }
    workers_.erase(old);
  }
  return id;
}

void EvaluationQueue::RemoveWorker(WorkerId id, Effects* effects) {
  MutexLock lock(mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  for (const std::string& key : std::set(it->second.leased)) {
    TakeBack(entries_.at(key), Requeue::kWorkerLost, effects);
  }
  workers_.erase(id);
}

void EvaluationQueue::SetDraining(WorkerId id) {
  MutexLock lock(mu_);
  const auto it = workers_.find(id);
  if (it != workers_.end()) it->second.draining = true;
}

void EvaluationQueue::Heartbeat(WorkerId id,
                                const std::vector<std::string>& keys,
                                Effects* effects) {
  MutexLock lock(mu_);
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  worker->second.suspect = false;
  for (const std::string& key : keys) {
    const auto it = entries_.find(key);
    if (it != entries_.end() && it->second.state == State::kLeased &&
        it->second.worker == id) {
      it->second.deadline = clock_.Now() + options_.lease;
    } else {
      effects->cancels.push_back({id, key});
    }
  }
}

void EvaluationQueue::ExpireLeases(Effects* effects) {
  MutexLock lock(mu_);
  const absl::Time now = clock_.Now();
  for (auto& [id, worker] : workers_) {
    for (const std::string& key : std::set(worker.leased)) {
      Entry& e = entries_.at(key);
      if (e.deadline > now) continue;
      worker.suspect = true;
      effects->cancels.push_back({id, key});
      TakeBack(e, Requeue::kLeaseExpired, effects);
    }
  }
}

}  // namespace dice
