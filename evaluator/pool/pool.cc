#include "evaluator/pool/pool.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/rpc/protocol.h"
#include "common/tasks/tasks.h"

namespace dice {

std::string EvaluationKey(const EvaluateRequest& request) {
  // Deterministic: Profile has neither maps nor unknown fields of ours.
  return Sha256HexOf({request.candidate_source(), request.task_digest(),
                      request.profile().SerializeAsString()});
}

// -------------------------------------------------------------------- clients

ClientId Pool::AddClient(ClientSink* sink) {
  MutexLock lock(mu_);
  const ClientId id = next_id_++;
  clients_[id].sink = sink;
  return id;
}

void Pool::RemoveClient(ClientId client) {
  MutexLock lock(mu_);
  clients_.erase(client);
  queue_.RemoveClient(client);
}

void Pool::HalfCloseClient(ClientId client) {
  MutexLock lock(mu_);
  Effects effects;
  queue_.AbandonParked(client, &effects);
  Apply(effects);
}

void Pool::Handle(ClientId client, const EvaluateRequest& request) {
  if (request.has_task() && !AcceptTask(client, request)) return;
  if (!request.candidate_source().empty()) {
    Admit(client, request);
  } else if (!request.has_task()) {
    MutexLock lock(mu_);
    Fail(client, request.request_id(), "candidate_source is empty", false);
  }
}

bool Pool::AcceptTask(ClientId client, const EvaluateRequest& request) {
  const std::string digest = TaskDigest(request.task());
  if (!request.task_digest().empty() && request.task_digest() != digest) {
    const std::string why = absl::StrCat("the task's digest is ", digest,
                                         ", not ", request.task_digest());
    DICE_LOG(kWarning) << "a client sent a wrong task: " << why;
    MutexLock lock(mu_);
    if (!request.candidate_source().empty()) {
      Fail(client, request.request_id(), why, false);
    }
    // What waits for the right one would wait for ever.
    Effects effects;
    queue_.AbandonParked(client, &effects);
    Apply(effects);
    return false;
  }
  const absl::Status saved = deps_.store.PutTask(digest, request.task());
  if (!saved.ok()) {
    deps_.metrics.store_errors.Increment();
    DICE_LOG(kWarning) << "task kept in memory only: " << saved;
  }
  MutexLock lock(mu_);
  known_tasks_.insert(digest);
  queue_.TaskArrived(digest);
  Apply({});
  return true;
}

void Pool::Admit(ClientId client, const EvaluateRequest& request) {
  EvaluationRequest evaluation{.key = EvaluationKey(request),
                               .candidate_source = request.candidate_source(),
                               .task_digest = request.task_digest(),
                               .profile = request.profile()};
  deps_.metrics.requests.Increment();
  std::string device_class;
  {
    MutexLock lock(mu_);
    device_class = device_class_;
  }
  std::optional<Verdict> cached;
  if (!device_class.empty()) {
    cached = deps_.store.FindVerdict(evaluation.key, device_class);
    evaluation.cache_checked = true;
    (cached ? deps_.metrics.cache_hits : deps_.metrics.cache_misses)
        .Increment();
  }
  const bool stored = deps_.store.HasTask(evaluation.task_digest);

  MutexLock lock(mu_);
  const auto it = clients_.find(client);
  if (it == clients_.end()) return;
  if (cached) {
    EvaluateResponse response;
    response.set_request_id(request.request_id());
    *response.mutable_verdict() = *std::move(cached);
    it->second.sink->Send(std::move(response));
    return;
  }
  if (draining_) {
    Fail(client, request.request_id(), "the pool is draining", true);
    return;
  }
  if (stored) known_tasks_.insert(evaluation.task_digest);
  evaluation.task_known = known_tasks_.count(evaluation.task_digest) > 0;
  const std::string digest = evaluation.task_digest;
  const bool known = evaluation.task_known;
  switch (queue_.Submit(client, request.request_id(), std::move(evaluation))) {
    case Admission::kFull:
      Fail(client, request.request_id(),
           absl::StrCat("the queue is full (", options_.queue_limit,
                        " evaluations, ", options_.client_limit,
                        " of one client)"),
           true);
      return;
    case Admission::kJoined:
      deps_.metrics.deduplicated.Increment();
      break;
    case Admission::kQueued:
      break;
  }
  if (!known && it->second.asked.insert(digest).second) {
    deps_.metrics.tasks_asked.Increment();
    EvaluateResponse response;
    response.set_request_id(request.request_id());
    response.mutable_need_task()->set_task_digest(digest);
    it->second.sink->Send(std::move(response));
  }
  Apply({});
}

void Pool::Fail(ClientId client, uint64_t request_id,
                const std::string& message, bool retryable) {
  if (retryable) deps_.metrics.rejected.Increment();
  const auto it = clients_.find(client);
  if (it == clients_.end()) return;
  EvaluateResponse response;
  response.set_request_id(request_id);
  response.mutable_infra_error()->set_message(message);
  response.mutable_infra_error()->set_retryable(retryable);
  it->second.sink->Send(std::move(response));
}

// -------------------------------------------------------------------- workers

uint64_t Pool::AddWorker(WorkerSink* sink) {
  MutexLock lock(mu_);
  const uint64_t stream = next_id_++;
  streams_[stream].sink = sink;
  return stream;
}

void Pool::RemoveWorker(uint64_t stream) {
  MutexLock lock(mu_);
  const auto node = streams_.extract(stream);
  if (node.empty() || node.mapped().id == 0) return;
  Effects effects;
  queue_.RemoveWorker(node.mapped().id, &effects);
  stream_of_.erase(node.mapped().id);
  Apply(effects);
}

void Pool::Welcome(WorkerState& worker, const RegisterWorker& hello) {
  const std::string device_class =
      absl::StrCat(hello.device(), "|", hello.harness_version());
  std::string refused;
  if (hello.protocol_version() != kProtocolVersion) {
    refused = absl::StrCat("protocol version ", hello.protocol_version(),
                           ", the pool speaks ", kProtocolVersion);
  } else if (hello.slots() <= 0 || hello.name().empty()) {
    refused = "a worker needs a name and at least one slot";
  } else if (!stream_of_.empty() && device_class != device_class_) {
    refused = absl::StrCat("this pool's workers are ", device_class_,
                           ", this one is ", device_class);
  }
  if (!refused.empty()) {
    DICE_LOG(kWarning) << "refused worker " << hello.name() << ": " << refused;
    PoolMessage message;
    message.set_refused(refused);
    worker.sink->Send(std::move(message));
    worker.sink->Close();
    return;
  }
  DICE_LOG(kInfo) << "worker " << hello.name() << ": " << device_class << ", "
                  << hello.slots() << " slots, " << hello.running_size()
                  << " evaluations running";
  device_class_ = device_class;
  Effects effects;
  worker.id = queue_.AddWorker(hello, &effects);
  worker.device_class = device_class;
  for (const auto& [stream, state] : streams_) {
    if (&state == &worker) stream_of_[worker.id] = stream;
  }
  Apply(effects);
}

void Pool::HandleWorker(uint64_t stream, const WorkerMessage& message) {
  if (message.has_needs_task()) {
    SendTask(stream, message.needs_task().task_digest());
    return;
  }
  Effects effects;
  {
    MutexLock lock(mu_);
    const auto it = streams_.find(stream);
    if (it == streams_.end()) return;
    WorkerState& worker = it->second;
    if (worker.id == 0) {
      Welcome(worker, message.hello());
      return;
    }
    switch (message.message_case()) {
      case WorkerMessage::kResult:
        queue_.Complete(worker.id, message.result(), &effects);
        deps_.metrics.last_result_time.Set(
            absl::ToDoubleSeconds(deps_.clock.Now() - absl::UnixEpoch()));
        break;
      case WorkerMessage::kHeartbeat: {
        const auto& keys = message.heartbeat().progressing_keys();
        queue_.Heartbeat(worker.id, {keys.begin(), keys.end()}, &effects);
        break;
      }
      case WorkerMessage::kDraining: {
        queue_.SetDraining(worker.id);
        // After this message there is no further lease on the stream.
        PoolMessage last;
        last.set_drain(true);
        worker.sink->Send(std::move(last));
        break;
      }
      default:
        break;
    }
    Apply(effects);
  }
  Store(effects);
}

void Pool::SendTask(uint64_t stream, const std::string& digest) {
  std::optional<Task> task = deps_.store.FindTask(digest);
  MutexLock lock(mu_);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  if (!task) {
    DICE_LOG(kError) << "the store lost task " << digest
                     << "; leases that need it will expire";
    known_tasks_.erase(digest);
    return;
  }
  PoolMessage message;
  *message.mutable_task() = *std::move(task);
  it->second.sink->Send(std::move(message));
}

// -------------------------------------------------------------------- effects

WorkerSink* Pool::SinkOf(WorkerId id) {
  const auto stream = stream_of_.find(id);
  if (stream == stream_of_.end()) return nullptr;
  return streams_.at(stream->second).sink;
}

void Pool::SendEffects(const Effects& effects) {
  for (const Effects::Answer& a : effects.answers) {
    const auto it = clients_.find(a.client);
    if (it != clients_.end()) it->second.sink->Send(a.response);
  }
  for (const Effects::Cancel& c : effects.cancels) {
    if (WorkerSink* sink = SinkOf(c.worker)) {
      PoolMessage message;
      message.set_cancel_key(c.key);
      sink->Send(std::move(message));
    }
  }
  deps_.metrics.Record(effects);
}

void Pool::Apply(const Effects& effects) {
  SendEffects(effects);
  while (std::optional<Assignment> a = queue_.LeaseNext()) {
    // Asked for before any worker was known, so before the cache could be
    // asked. Rare, hence the read under the lock.
    if (!a->cache_checked) {
      auto cached = deps_.store.FindVerdict(a->lease.key(), device_class_);
      (cached ? deps_.metrics.cache_hits : deps_.metrics.cache_misses)
          .Increment();
      if (cached) {
        Effects hit;
        queue_.Decide(a->lease.key(), *cached, &hit);
        SendEffects(hit);
        continue;
      }
    }
    if (WorkerSink* sink = SinkOf(a->worker)) {
      PoolMessage message;
      *message.mutable_lease() = std::move(a->lease);
      sink->Send(std::move(message));
    }
  }
}

void Pool::Store(const Effects& effects) {
  if (effects.cacheable.empty()) return;
  std::string device_class;
  {
    MutexLock lock(mu_);
    device_class = device_class_;
  }
  for (const Effects::Decided& d : effects.cacheable) {
    const absl::Status stored =
        deps_.store.PutVerdict(d.key, device_class, d.verdict);
    if (stored.ok()) continue;
    deps_.metrics.store_errors.Increment();
    DICE_LOG(kWarning) << "not cached: " << stored;
  }
}

void Pool::Tick() {
  {
    MutexLock lock(mu_);
    Effects effects;
    queue_.ExpireLeases(&effects);
    Apply(effects);
  }
  deps_.metrics.Record(queue_.Stats());
}

void Pool::StartDraining() {
  MutexLock lock(mu_);
  draining_ = true;
}

bool Pool::Idle() const {
  const QueueStats stats = queue_.Stats();
  return stats.queued == 0 && stats.leased == 0;
}

PoolStatusResponse Pool::Status() const {
  const QueueStats stats = queue_.Stats();
  PoolStatusResponse out;
  out.set_queued(stats.queued);
  out.set_leased(stats.leased);
  for (const WorkerStatus& w : stats.workers) *out.add_workers() = w;
  PoolMetrics& m = deps_.metrics;
  double decided = 0;
  for (const std::string& outcome : OutcomeLabels()) {
    decided += m.results[outcome].Value();
  }
  out.set_decided_total(static_cast<int64_t>(decided));
  out.set_cache_hits_total(static_cast<int64_t>(m.cache_hits.Value()));
  out.set_deduplicated_total(static_cast<int64_t>(m.deduplicated.Value()));
  out.set_infra_errors_total(static_cast<int64_t>(
      m.infra_errors["retried"].Value() + m.infra_errors["lost"].Value()));
  out.set_judge_seconds_total(m.judge_seconds.Value());
  return out;
}

}  // namespace dice
