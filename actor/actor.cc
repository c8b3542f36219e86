#include "actor/actor.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "actor/policy_follower.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rpc/backoff.h"
#include "common/tasks/tasks.h"

namespace dice {
namespace {

// Errors that no waiting cures.
bool IsPermanent(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
}

Backoff NewBackoff() {
  return Backoff({.seed = static_cast<uint64_t>(getpid())});
}

double UnixSeconds(absl::Time t) {
  return absl::ToDoubleSeconds(t - absl::UnixEpoch());
}

int64_t SampledTokens(const Response& response) {
  return std::count_if(response.steps().begin(), response.steps().end(),
                       [](int32_t step) { return step > 0; });
}

}  // namespace

Engine::Callbacks Actor::engine_callbacks() {
  return {.on_response =
              [this](uint64_t group, int sample, Response response) {
                OnResponse(group, sample, std::move(response));
              },
          .on_progress = [this] { OnProgress(); },
          .on_failure = [this](absl::Status status) { End(status); }};
}

absl::Status Actor::Run(std::unique_ptr<Engine> engine) {
  engine_ = std::move(engine);
  {
    MutexLock lock(mu_);
    renew_every_ = options_.renew_every;
  }
  absl::Status status;
  {
    PolicyFollower follower({.learner = deps_.learner,
                             .engine = *engine_,
                             .metrics = deps_.metrics,
                             .clock = deps_.clock});
    const std::jthread lease =
        StartThread("lease", [this](std::stop_token stop) { LeaseLoop(stop); });
    const std::jthread renew =
        StartThread("renew", [this](std::stop_token stop) { RenewLoop(stop); });
    const std::jthread push =
        StartThread("push", [this](std::stop_token stop) { PushLoop(stop); });
    status = AwaitEnd();
    deps_.learner.Shutdown();
    complete_.Close();
  }
  // In this order: no callback finds its target gone.
  engine_.reset();
  deps_.evaluator.Shutdown();
  return status;
}

void Actor::Stop() {
  MutexLock lock(mu_);
  draining_ = true;
  changed_.NotifyAll();
}

void Actor::End(absl::Status status) {
  MutexLock lock(mu_);
  if (ended_) return;
  ended_ = draining_ = true;
  end_status_ = std::move(status);
  changed_.NotifyAll();
}

absl::Status Actor::AwaitEnd() {
  MutexLock lock(mu_);
  while (!draining_) changed_.Wait(mu_);
  const absl::Time deadline = deps_.clock.Now() + options_.drain;
  while (!ended_ && (!groups_.empty() || unpushed_ > 0) &&
         deps_.clock.Now() < deadline) {
    deps_.clock.Await(changed_, mu_, deadline);
  }
  if (!groups_.empty() || unpushed_ > 0) {
    DICE_LOG(kInfo) << groups_.size() + unpushed_
                    << " groups are left to their leases' end";
  }
  draining_ = ended_ = true;
  changed_.NotifyAll();
  return end_status_;
}

// ---------------------------------------------------------------------- lease

int Actor::AwaitRoom() {
  MutexLock lock(mu_);
  while (!draining_) {
    const int64_t room = static_cast<int64_t>(options_.max_groups) -
                         static_cast<int64_t>(groups_.size()) - unpushed_;
    const int64_t wanted =
        (options_.low_water - unsampled_ + samples_per_lease_ - 1) /
        samples_per_lease_;
    if (std::min(room, wanted) > 0) {
      return static_cast<int>(std::min(room, wanted));
    }
    changed_.Wait(mu_);
  }
  return 0;
}

void Actor::LeaseLoop(std::stop_token stop) {
  Backoff backoff = NewBackoff();
  while (const int wanted = AwaitRoom()) {
    const absl::StatusOr<LeaseTasksResponse> answer =
        deps_.learner.LeaseTasks(wanted, options_.lease_wait);
    if (!answer.ok()) {
      if (IsPermanent(answer.status())) return End(answer.status());
      deps_.metrics.rpc_retries["lease"].Increment();
      SleepUnlessStopped(deps_.clock, backoff.Next(), stop);
      continue;
    }
    backoff.Reset();
    if (answer->finished()) {
      DICE_LOG(kInfo) << "the run is over";
      return End(absl::OkStatus());
    }
    for (const Lease& lease : answer->leases()) StartGroup(lease);
  }
}

bool Actor::AdoptLease(const Lease& lease) {
  MutexLock lock(mu_);
  for (auto& [id, group] : groups_) {
    if (group.lease.lease_id() != lease.lease_id()) continue;
    group.lease.set_attempt(lease.attempt());
    group.progressed = true;
    return true;
  }
  return false;
}

void Actor::StartGroup(const Lease& lease) {
  deps_.metrics.leases.Increment();
  if (AdoptLease(lease)) return;
  absl::StatusOr<SamplingJob> job =
      MakeJob(lease, deps_.tokenizer, engine_->vocab_size());
  Group group = MakeGroup(lease, job.ok() ? *job : SamplingJob());
  group.leased_at = deps_.clock.Now();
  uint64_t id;
  {
    MutexLock lock(mu_);
    id = ++last_group_;
    samples_per_lease_ = std::max(1, lease.num_samples());
    unsampled_ += group.unsampled;
    if (lease.deadline_s() > 0) {
      renew_every_ =
          std::min(options_.renew_every, absl::Seconds(lease.deadline_s() / 3));
    }
    groups_[id] = std::move(group);
    SetGauges();
    changed_.NotifyAll();
  }
  absl::Status status = job.status();
  if (status.ok()) {
    job->group = id;
    status = engine_->Submit(*std::move(job));
  }
  if (status.ok()) return;
  // Our failure, or the learner's: no reward, and no reason to stop the others.
  DICE_LOG(kError) << "lease " << lease.lease_id() << ": " << status;
  {
    MutexLock lock(mu_);
    Group& g = groups_[id];
    unsampled_ -= std::exchange(g.unsampled, 0);
    g.undecided = 1;  // for CountDown
    for (Rollout& r : g.rollouts) r.set_infra_error(status.ToString());
  }
  CountDown(id);
}

// --------------------------------------------------- response, candidate,
// verdict

void Actor::OnResponse(uint64_t group, int sample, Response response) {
  deps_.metrics.responses[response.stop_reason()].Increment();
  deps_.metrics.tokens.Increment(static_cast<double>(SampledTokens(response)));
  deps_.metrics.denoise_steps.Increment(response.denoise_steps());
  const std::string text = ResponseText(response, deps_.tokenizer);
  EvaluatorClient::Request request;
  ResponseMode mode;
  {
    MutexLock lock(mu_);
    const auto it = groups_.find(group);
    if (it == groups_.end()) return;
    Group& g = it->second;
    --g.unsampled;
    --unsampled_;
    Rollout& rollout = g.rollouts[sample];
    rollout.set_sampled_at_s(UnixSeconds(deps_.clock.Now()));
    rollout.set_text(text);
    *rollout.mutable_response() = std::move(response);
    request.task = g.task;
    request.task_digest = g.task_digest;
    request.profile = g.lease.profile();
    mode = g.lease.mode();
    changed_.NotifyAll();
  }
  absl::StatusOr<std::string> candidate =
      MakeCandidate(*request.task, mode, text);
  if (candidate.ok() && candidate->empty()) {
    candidate = absl::InvalidArgumentError("the candidate is empty");
  }
  if (!candidate.ok()) {
    deps_.metrics.evaluations["format_error"].Increment();
    {
      MutexLock lock(mu_);
      const auto it = groups_.find(group);
      if (it == groups_.end()) return;
      Rollout& rollout = it->second.rollouts[sample];
      *rollout.mutable_verdict() = FormatError(candidate.status().message());
      rollout.set_verdict_at_s(UnixSeconds(deps_.clock.Now()));
    }
    return CountDown(group);
  }
  request.candidate = SanitizeUtf8(*candidate);
  const uint64_t id = deps_.evaluator.Evaluate(
      std::move(request), [this, group, sample](EvaluatorClient::Answer a) {
        OnAnswer(group, sample, std::move(a));
      });
  MutexLock lock(mu_);
  // The answer may have been faster.
  const auto it = groups_.find(group);
  if (it == groups_.end()) {
    deps_.evaluator.Forget(id);
  } else {
    it->second.evaluation_ids[sample] = id;
  }
}

void Actor::OnAnswer(uint64_t group, int sample,
                     EvaluatorClient::Answer answer) {
  deps_.metrics.evaluations[answer.verdict ? "verdict" : "infra_error"]
      .Increment();
  deps_.metrics.verdict_seconds.Observe(
      absl::ToDoubleSeconds(answer.answered_at - answer.sent_at));
  {
    MutexLock lock(mu_);
    const auto it = groups_.find(group);
    if (it == groups_.end()) return;
    Rollout& rollout = it->second.rollouts[sample];
    rollout.set_evaluate_sent_at_s(UnixSeconds(answer.sent_at));
    rollout.set_verdict_at_s(UnixSeconds(answer.answered_at));
    if (answer.verdict) {
      *rollout.mutable_verdict() = *std::move(answer.verdict);
    } else {
      DICE_LOG(kWarning) << rollout.task_id() << " sample "
                         << rollout.sample_index()
                         << " is lost: " << answer.infra_error;
      rollout.set_infra_error(answer.infra_error);
    }
  }
  CountDown(group);
}

void Actor::OnProgress() {
  MutexLock lock(mu_);
  for (auto& [id, group] : groups_) group.progressed |= group.unsampled > 0;
}

void Actor::CountDown(uint64_t id) {
  Group group;
  {
    MutexLock lock(mu_);
    const auto it = groups_.find(id);
    if (it == groups_.end()) return;
    it->second.progressed = true;
    if (--it->second.undecided > 0) return;
    group = std::move(it->second);
    groups_.erase(it);
    ++unpushed_;
    SetGauges();
  }
  deps_.metrics.group_seconds.Observe(
      absl::ToDoubleSeconds(deps_.clock.Now() - group.leased_at));
  // Never full: AwaitRoom counts what is in it.
  complete_.Push(std::move(group));
}

// ----------------------------------------------------------------------- push

void Actor::PushLoop(std::stop_token stop) {
  Backoff backoff = NewBackoff();
  while (std::optional<Group> group = complete_.Pop()) {
    absl::StatusOr<PushGroupResponse> answer;
    while (true) {
      answer = deps_.learner.PushGroup(group->lease, group->rollouts);
      if (answer.ok() || IsPermanent(answer.status()) ||
          absl::IsCancelled(answer.status())) {
        break;
      }
      deps_.metrics.rpc_retries["push"].Increment();
      if (!SleepUnlessStopped(deps_.clock, backoff.Next(), stop)) return;
    }
    backoff.Reset();
    const bool accepted = answer.ok() && answer->accepted();
    deps_.metrics.groups[accepted ? "accepted" : "refused"].Increment();
    if (!accepted) {
      DICE_LOG(kWarning) << "group " << group->lease.lease_id()
                         << " was refused: "
                         << (answer.ok() ? answer->reason()
                                         : answer.status().ToString());
    }
    MutexLock lock(mu_);
    --unpushed_;
    SetGauges();
    changed_.NotifyAll();
  }
}

// ---------------------------------------------------------------------- renew

void Actor::RenewLoop(std::stop_token stop) {
  while (true) {
    absl::Duration wait;
    {
      MutexLock lock(mu_);
      wait = renew_every_;
    }
    if (!SleepUnlessStopped(deps_.clock, wait, stop)) return;
    // A pool that is there owes us its answers: waiting for it is no stall.
    const bool judged = deps_.evaluator.connected();
    std::vector<std::string> ids;
    {
      MutexLock lock(mu_);
      SetGauges();
      for (auto& [id, group] : groups_) {
        const bool waits = judged && group.unsampled == 0;
        if (!std::exchange(group.progressed, false) && !waits) continue;
        ids.push_back(group.lease.lease_id());
      }
    }
    if (ids.empty()) continue;
    const auto lost = deps_.learner.RenewLeases(ids);
    if (lost.ok()) {
      if (!lost->empty()) Forget(*lost);
      continue;
    }
    deps_.metrics.rpc_retries["renew"].Increment();
    MutexLock lock(mu_);
    for (auto& [id, group] : groups_) {  // not told: next time again
      group.progressed |= std::find(ids.begin(), ids.end(),
                                    group.lease.lease_id()) != ids.end();
    }
  }
}

void Actor::Forget(const std::vector<std::string>& lease_ids) {
  std::vector<uint64_t> evaluations;
  MutexLock lock(mu_);
  for (auto it = groups_.begin(); it != groups_.end();) {
    const Group& group = it->second;
    if (std::find(lease_ids.begin(), lease_ids.end(), group.lease.lease_id()) ==
        lease_ids.end()) {
      ++it;
      continue;
    }
    DICE_LOG(kInfo) << "lease " << group.lease.lease_id() << " is given up";
    deps_.metrics.groups["lost"].Increment();
    unsampled_ -= group.unsampled;
    engine_->Abandon(it->first);
    for (uint64_t id : group.evaluation_ids) {
      if (id != 0) deps_.evaluator.Forget(id);
    }
    it = groups_.erase(it);
  }
  SetGauges();
  changed_.NotifyAll();
}

void Actor::SetGauges() {
  deps_.metrics.groups_in_flight.Set(static_cast<double>(groups_.size()));
  deps_.metrics.responses_pending.Set(static_cast<double>(unsampled_));
  deps_.metrics.evaluations_pending.Set(
      static_cast<double>(deps_.evaluator.pending()));
  deps_.metrics.pushes_pending.Set(unpushed_);
}

}  // namespace dice
