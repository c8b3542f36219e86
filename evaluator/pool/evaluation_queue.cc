#include "evaluator/pool/evaluation_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dice {
namespace {

// A limit of CPU time cannot be exceeded because the machine was busy.
constexpr char kCpuLimitNote[] = "cpu_time_limit";

bool MayBeLoad(const Verdict& verdict) {
  return verdict.outcome() == TIMEOUT &&
         std::find(verdict.notes().begin(), verdict.notes().end(),
                   kCpuLimitNote) == verdict.notes().end();
}

}  // namespace

// ------------------------------------------------------------------ clients

Admission EvaluationQueue::Submit(ClientId id, uint64_t request_id,
                                  EvaluationRequest request) {
  MutexLock lock(mu_);
  const std::string key = request.key;
  const auto [it, fresh] = entries_.try_emplace(key);
  Entry& e = it->second;
  Client& client = clients_[id];
  if (fresh && (queued_ >= options_.queue_limit ||
                client.queued >= options_.client_limit)) {
    entries_.erase(it);
    return Admission::kFull;
  }
  e.waiters.push_back({id, request_id});
  client.keys.insert(key);
  if (!fresh) {
    if (!e.has_content) e.request = std::move(request);
    e.has_content = true;
    return Admission::kJoined;
  }
  e.request = std::move(request);
  e.submitted = clock_.Now();
  e.owner = id;
  ++queued_;
  ++client.queued;
  if (e.request.task_known) {
    Enqueue(e);
  } else {
    e.state = State::kParked;
    parked_[e.request.task_digest].push_back(key);
  }
  return Admission::kQueued;
}

void EvaluationQueue::RemoveClient(ClientId id) {
  MutexLock lock(mu_);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  const std::unordered_set<std::string> keys = std::move(it->second.keys);
  for (const std::string& key : keys) {
    Entry& e = entries_.at(key);
    std::erase_if(e.waiters, [&](const Waiter& w) { return w.client == id; });
    if (e.state == State::kLeased) continue;
    if (e.waiters.empty()) {
      LeaveLine(e);
      Erase(e);
    } else if (e.owner == id && e.state != State::kRetry) {
      e.owner = e.waiters.front().client;
      ++clients_[e.owner].queued;
      if (e.state == State::kQueued) Enqueue(e);
    }
  }
  clients_.erase(id);
}

void EvaluationQueue::TaskArrived(const std::string& digest) {
  MutexLock lock(mu_);
  const auto node = parked_.extract(digest);
  if (node.empty()) return;
  for (const std::string& key : node.mapped()) Enqueue(entries_.at(key));
}

void EvaluationQueue::AbandonParked(ClientId id, Effects* effects) {
  MutexLock lock(mu_);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  for (const std::string& key : std::unordered_set(it->second.keys)) {
    Entry& e = entries_.at(key);
    if (e.state == State::kParked && e.owner == id) {
      GiveUp(e, "the client never sent its task", effects);
    }
  }
}

// ------------------------------------------------------------------- the line

void EvaluationQueue::Enqueue(Entry& e) {
  e.state = State::kQueued;
  e.ticket = next_ticket_++;
  Client& owner = clients_[e.owner];
  owner.line.emplace_back(e.request.key, e.ticket);
  if (!std::exchange(owner.in_ring, true)) ring_.push_back(e.owner);
}

void EvaluationQueue::LeaveLine(Entry& e) {
  if (e.state == State::kLeased) return;
  --queued_;
  e.ticket = 0;
  if (e.state == State::kRetry) return;
  const auto owner = clients_.find(e.owner);
  if (owner != clients_.end()) --owner->second.queued;
  if (e.state == State::kParked) {
    const auto parked = parked_.find(e.request.task_digest);
    std::erase(parked->second, e.request.key);
    if (parked->second.empty()) parked_.erase(parked);
  }
}

EvaluationQueue::Entry* EvaluationQueue::Find(const Place& place, State state) {
  const auto it = entries_.find(place.first);
  const bool valid = it != entries_.end() && it->second.state == state &&
                     it->second.ticket == place.second;
  return valid ? &it->second : nullptr;
}

EvaluationQueue::Entry* EvaluationQueue::NextInLine() {
  while (!ring_.empty()) {
    const ClientId id = ring_.front();
    ring_.pop_front();
    const auto it = clients_.find(id);
    if (it == clients_.end()) continue;
    Client& client = it->second;
    Entry* found = nullptr;
    while (found == nullptr && !client.line.empty()) {
      found = Find(client.line.front(), State::kQueued);
      client.line.pop_front();
    }
    client.in_ring = !client.line.empty();
    if (client.in_ring) ring_.push_back(id);
    if (found != nullptr) return found;
  }
  return nullptr;
}

EvaluationQueue::Entry* EvaluationQueue::NextRetry(WorkerId* worker) {
  const absl::Time now = clock_.Now();
  for (auto it = retries_.begin(); it != retries_.end();) {
    Entry* e = Find(*it, State::kRetry);
    if (e == nullptr) {
      it = retries_.erase(it);
      continue;
    }
    ++it;
    if (e->not_before > now) continue;
    *worker = PickWorker(e);
    if (*worker != 0) return e;
    if (e->alone) Reserve(*e);
  }
  return nullptr;
}

// -------------------------------------------------------------------- results

void EvaluationQueue::Complete(WorkerId id, const WorkerResult& result,
                               Effects* effects) {
  MutexLock lock(mu_);
  const auto worker = workers_.find(id);
  if (worker != workers_.end()) worker->second.suspect = false;
  const bool verdict =
      result.has_verdict() && result.verdict().outcome() != OUTCOME_UNSPECIFIED;
  const bool timeout =
      verdict && options_.confirm_timeouts && MayBeLoad(result.verdict());
  const auto it = entries_.find(result.key());
  if (it == entries_.end()) {
    // Nobody waits; a later request may profit.
    ++effects->late_ignored;
    if (verdict && !MayBeLoad(result.verdict())) {
      effects->cacheable.push_back({result.key(), result.verdict()});
    }
    return;
  }
  Entry& e = it->second;
  const bool holds = e.state == State::kLeased && e.worker == id &&
                     e.attempt == result.attempt();
  if (!holds && (!verdict || timeout)) {
    ++effects->late_ignored;
  } else if (!verdict) {
    Fail(e, result.infra_error(), effects);
  } else if (timeout && !e.alone && e.has_content) {
    e.alone = true;
    TakeBack(e, Requeue::kConfirmTimeout, effects);
  } else {
    effects->late_accepted += !holds;
    if (e.state == State::kLeased && e.worker != id) {
      effects->cancels.push_back({e.worker, result.key()});
    }
    Settle(e, result.verdict(), e.alone || !MayBeLoad(result.verdict()),
           effects);
  }
}

void EvaluationQueue::Decide(const std::string& key, const Verdict& verdict,
                             Effects* effects) {
  MutexLock lock(mu_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  Entry& e = it->second;
  EvaluateResponse response;
  *response.mutable_verdict() = verdict;
  Answer(e, std::move(response), effects);
  LeaveLine(e);
  Release(e);
  Erase(e);
}

void EvaluationQueue::Fail(Entry& e, const std::string& message,
                           Effects* effects) {
  e.failed_on.insert(workers_.at(e.worker).hello.name());
  ++e.infra_errors;
  if (static_cast<int>(e.failed_on.size()) >= options_.max_infra_errors ||
      e.infra_errors >= 2 * options_.max_infra_errors) {
    GiveUp(e,
           absl::StrCat(e.infra_errors, " infrastructure failures on ",
                        e.failed_on.size(), " workers, the last: ", message),
           effects);
    return;
  }
  e.not_before = clock_.Now() +
                 options_.retry_delay * (1 << std::min(e.infra_errors - 1, 6));
  TakeBack(e, Requeue::kInfraError, effects);
}

void EvaluationQueue::GiveUp(Entry& e, const std::string& why,
                             Effects* effects) {
  EvaluateResponse response;
  response.mutable_infra_error()->set_message(why);
  response.mutable_infra_error()->set_retryable(false);
  ++effects->lost;
  Answer(e, std::move(response), effects);
  LeaveLine(e);
  Release(e);
  Erase(e);
}

void EvaluationQueue::Settle(Entry& e, Verdict verdict, bool cacheable,
                             Effects* effects) {
  if (cacheable) effects->cacheable.push_back({e.request.key, verdict});
  verdict.mutable_stage_s()->set_queue(absl::ToDoubleSeconds(e.queue_time));
  EvaluateResponse response;
  *response.mutable_verdict() = verdict;
  Answer(e, std::move(response), effects);
  effects->decided.push_back({e.request.key, std::move(verdict)});
  LeaveLine(e);
  Release(e);
  Erase(e);
}

void EvaluationQueue::Answer(Entry& e, EvaluateResponse response,
                             Effects* effects) {
  for (const Waiter& w : e.waiters) {
    response.set_request_id(w.request_id);
    effects->answers.push_back({w.client, response});
    const auto client = clients_.find(w.client);
    if (client != clients_.end()) client->second.keys.erase(e.request.key);
  }
  e.waiters.clear();
}

void EvaluationQueue::Erase(Entry& e) {
  if (e.alone) {
    for (auto& [id, w] : workers_) {
      if (w.reserved_for == e.request.key) w.reserved_for.clear();
    }
  }
  const std::string key = e.request.key;  // not a reference into `e`
  entries_.erase(key);
}

QueueStats EvaluationQueue::Stats() const {
  MutexLock lock(mu_);
  QueueStats out{.queued = queued_,
                 .leased = leased_,
                 .clients = static_cast<int64_t>(clients_.size())};
  const absl::Time now = clock_.Now();
  for (const auto& [id, w] : workers_) {
    WorkerStatus& status = out.workers.emplace_back();
    status.set_name(w.hello.name());
    status.set_device(w.hello.device());
    status.set_slots(w.hello.slots());
    status.set_leased(static_cast<int32_t>(w.leased.size()));
    status.set_draining(w.draining);
    status.set_isolation(w.hello.isolation());
    for (const std::string& key : w.leased) {
      out.oldest_lease =
          std::max(out.oldest_lease, now - entries_.at(key).leased_at);
    }
  }
  return out;
}

}  // namespace dice
