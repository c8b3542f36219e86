// Driver: the parts below a stage: leases out and groups in, evaluations, policy
// versions, checkpoints.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tasks/tasks.h"
#include "learner/driver.h"
#include "learner/reward.h"

namespace dice {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(200);
// Ranks above 0 wait in a collective; they hear from rank 0 this often.
constexpr absl::Duration kHeartbeat = absl::Seconds(30);
constexpr absl::Duration kSilence = absl::Seconds(30);

// What a kernel is ranked by: the speedup that is certain.
double CertainSpeedup(double speedup, double lo) {
  return lo > 0 ? lo : speedup;
}

}  // namespace

void Driver::Offer(const RlStage& rl, const GroupPlanner::Slot& slot,
                   TaskSchedule& schedule) {
  const size_t task = schedule.Next();
  task_of_[slot.ordinal] = task;
  Lease lease;
  lease.set_lease_id(absl::StrCat(deps_.policies.incarnation(), "/",
                                  state_.stage(), "/", slot.ordinal));
  lease.set_purpose(TRAIN);
  *lease.mutable_task() = deps_.train[task];
  lease.set_mode(rl.mode());
  lease.set_num_samples(rl.responses_per_task());
  *lease.mutable_sampling() = rl.sampling();
  lease.set_run_seed(deps_.config.seed());
  lease.set_stage(state_.stage());
  lease.set_task_ordinal(slot.ordinal);
  lease.set_min_version(slot.min_version);
  *lease.mutable_profile() = deps_.config.judge().profile();
  deps_.leases.Offer(std::move(lease));
}

absl::StatusOr<CompletedGroup> Driver::AwaitGroup() {
  const absl::Time begin = deps_.clock.Now();
  while (true) {
    if (stop_.stop_requested()) return absl::CancelledError("stopped");
    const absl::Time now = deps_.clock.Now();
    if (auto group = deps_.leases.Await(now + kPoll)) {
      deps_.progress.Touch();
      return *std::move(group);
    }
    if (deps_.leases.closed()) return absl::CancelledError("closed");
    deps_.progress.Pause();  // waiting for others is not being stuck
    deps_.metrics.outstanding_groups.Set(
        static_cast<double>(deps_.leases.outstanding()));
    if (now - last_heartbeat_ > kHeartbeat) {
      DICE_RETURN_IF_ERROR(deps_.trainer.Run(TrainBatch()).status());
      last_heartbeat_ = now;
    }
    if (now - std::max(begin, last_warning_) > kSilence) {
      DICE_LOG(kWarning) << "no group for "
                         << absl::FormatDuration(absl::Floor(
                                now - begin, absl::Seconds(1)))
                         << "; an actor last asked for work "
                         << absl::FormatDuration(absl::Floor(
                                now - std::max(deps_.leases.last_asked(),
                                               started_),
                                absl::Seconds(1)))
                         << " ago (or never)";
      last_warning_ = now;
    }
  }
}

absl::Status Driver::Collect(GroupPlanner& planner, int64_t step) {
  while (!planner.Complete(step)) {
    DICE_ASSIGN_OR_RETURN(CompletedGroup group, AwaitGroup());
    planner.Put(std::move(group));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CompletedGroup>> Driver::CollectStep(
    const RlStage& rl, GroupPlanner& planner, TaskSchedule& schedule) {
  const int64_t step = state_.stage_step();
  for (const GroupPlanner::Slot& slot : planner.Admit(step)) {
    if (cursors_.count(slot.step) == 0) {
      cursors_[slot.step] = schedule.SaveCursor();
    }
    Offer(rl, slot, schedule);
  }
  DICE_RETURN_IF_ERROR(Collect(planner, step));
  std::vector<CompletedGroup> out = planner.Take(step);
  if (rl.loss().zero_variance() != REFILL) return out;
  size_t looked_at = 0;
  while (looked_at < out.size()) {
    size_t flat = 0;
    for (; looked_at < out.size(); ++looked_at) {
      flat += !HasSignal(out[looked_at], rl.reward());
    }
    for (; flat > 0; --flat) {
      const auto slot = planner.Refill(step);
      if (!slot.has_value()) {
        DICE_LOG(kWarning) << "step " << step
                           << ": the refill budget is used up";
        break;
      }
      Offer(rl, *slot, schedule);
    }
    DICE_RETURN_IF_ERROR(Collect(planner, step));
    for (CompletedGroup& g : planner.Take(step)) out.push_back(std::move(g));
  }
  return out;
}

bool Driver::Evaluated(const std::string& label) const {
  for (const EvaluationScores& s : state_.evaluations()) {
    if (s.label() == label) return true;
  }
  return false;
}

absl::Status Driver::Evaluate(const std::string& label) {
  if (Evaluated(label)) return absl::OkStatus();
  EvaluationPass pass(deps_.config.evaluation(), evaluation_tasks_, label);
  std::vector<Lease> leases = pass.Leases();
  if (leases.empty()) return absl::OkStatus();
  SetStatus("evaluation");
  const absl::Time begin = deps_.clock.Now();
  DICE_RETURN_IF_ERROR(Publish());
  const size_t total = leases.size();
  for (Lease& lease : leases) {
    lease.set_lease_id(absl::StrCat(deps_.policies.incarnation(), "/", label,
                                    "/", lease.task_ordinal()));
    lease.set_run_seed(deps_.config.seed());
    lease.set_min_version(state_.step());
    *lease.mutable_profile() = deps_.config.judge().profile();
    deps_.leases.Offer(std::move(lease));
  }
  std::vector<CompletedGroup> groups;
  while (groups.size() < total) {
    DICE_ASSIGN_OR_RETURN(CompletedGroup group, AwaitGroup());
    pass.Add(group);
    groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.lease.task_ordinal() < b.lease.task_ordinal();
  });
  for (CompletedGroup& group : groups) {
    for (Rollout& r : group.rollouts) {
      const auto reward =
          ComputeReward(deps_.config.evaluation().reward(), r);
      if (reward.has_value()) r.set_reward(*reward);
    }
  }
  CountGroups(DescribeGroups(deps_.config.evaluation().reward(),
                             state_.step(), groups));
  const std::string name = absl::StrCat("evaluation_", label);
  DICE_RETURN_IF_ERROR(
      deps_.record.Rollouts(name, name, state_.stage_step(), groups));
  *state_.add_evaluations() = pass.scores();
  deps_.record.Evaluated(pass.scores());
  (*state_.mutable_stage_wall_s())["evaluation"] +=
      absl::ToDoubleSeconds(deps_.clock.Now() - begin);
  return absl::OkStatus();
}

void Driver::CountGroups(const GroupStats& s) {
  state_.set_judge_calls(state_.judge_calls() + s.judge_calls);
  state_.set_cache_hits(state_.cache_hits() + s.cache_hits);
  state_.set_infra_errors(state_.infra_errors() + s.infra_errors);
  LearnerMetrics& m = deps_.metrics;
  m.tokens.Increment(static_cast<double>(s.tokens));
  m.samples.Increment(static_cast<double>(s.samples));
  m.infra_errors.Increment(static_cast<double>(s.infra_errors));
  m.groups["kept"].Increment(static_cast<double>(s.groups_kept));
  m.groups["zero_variance"].Increment(
      static_cast<double>(s.groups_zero_variance));
  const double expired = static_cast<double>(deps_.leases.expired_total());
  m.expired_leases.Increment(expired - m.expired_leases.Value());
}

void Driver::NoteBest(const Stage& stage,
                      const std::vector<CompletedGroup>& groups) {
  for (const CompletedGroup& g : groups) {
    for (const Rollout& r : g.rollouts) {
      const Verdict& v = r.verdict();
      if (!r.has_verdict() || !Correct(v) || v.speedup() <= 0) continue;
      const BestKernel& best = state_.best();
      if (CertainSpeedup(v.speedup(), v.speedup_lo()) <=
          CertainSpeedup(best.speedup(), best.speedup_lo())) {
        continue;
      }
      const auto source = MakeCandidate(g.lease.task(), g.lease.mode(), r.text());
      if (!source.ok()) continue;
      BestKernel& out = *state_.mutable_best();
      out.set_task(g.lease.task().id());
      out.set_speedup(v.speedup());
      out.set_speedup_lo(v.speedup_lo());
      out.set_speedup_hi(v.speedup_hi());
      out.set_device(v.device());
      out.set_stage(stage.name());
      out.set_step(state_.stage_step() + 1);
      out.set_source(*source);
    }
  }
}

absl::Status Driver::Publish() {
  if (deps_.policies.version() == state_.step()) return absl::OkStatus();
  const absl::Time begin = deps_.clock.Now();
  DICE_ASSIGN_OR_RETURN(std::string bytes, deps_.lm.SerializeWeights());
  deps_.policies.Publish(state_.step(), std::move(bytes));
  deps_.metrics.policy_version.Set(static_cast<double>(state_.step()));
  deps_.metrics.phase_seconds["publish"].Observe(
      absl::ToDoubleSeconds(deps_.clock.Now() - begin));
  return absl::OkStatus();
}

absl::Status Driver::SaveNow() {
  const absl::Time begin = deps_.clock.Now();
  state_.set_wall_s(Elapsed());
  state_.set_metrics_rows(deps_.record.rows());
  Checkpoint checkpoint;
  checkpoint.state = state_;
  checkpoint.model_config = deps_.lm.config().ToJson();
  DICE_ASSIGN_OR_RETURN(checkpoint.weights, deps_.lm.SerializeWeights());
  // Before its stage began in this process, a restored state is still pending.
  Trainer::State trainer;
  if (restored_.has_value()) {
    trainer = *restored_;
  } else {
    DICE_ASSIGN_OR_RETURN(trainer, deps_.trainer.GetState());
  }
  checkpoint.optimizer = std::move(trainer.optimizer);
  checkpoint.reference = std::move(trainer.reference);
  DICE_RETURN_IF_ERROR(SaveCheckpoint(run_dir_, checkpoint,
                                      deps_.config.checkpointing().keep())
                           .status())
      << "checkpoint of step " << state_.step();
  deps_.metrics.checkpoints.Increment();
  deps_.metrics.phase_seconds["checkpoint"].Observe(
      absl::ToDoubleSeconds(deps_.clock.Now() - begin));
  return absl::OkStatus();
}

}  // namespace dice
