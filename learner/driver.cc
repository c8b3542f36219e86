#include "learner/driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "learner/reward.h"
#include "learner/sft_data.h"

namespace dice {
namespace {

// What ends a target, and what fills its last block: `<|im_end|>` and
// `<|endoftext|>` where the model stops at them, else its first end token.
int32_t EndToken(const ModelConfig& config, const Tokenizer& tokenizer,
                 const char* preferred) {
  const auto id = tokenizer.TokenToId(preferred);
  const auto& eos = config.eos_token_ids;
  if (id.has_value() && std::find(eos.begin(), eos.end(), *id) != eos.end()) {
    return *id;
  }
  return static_cast<int32_t>(eos.front());
}

double Since(absl::Time t, Clock& clock) {
  return std::max(1e-9, absl::ToDoubleSeconds(clock.Now() - t));
}

}  // namespace

Driver::Driver(Deps deps, std::string run_dir, TrainState state)
    : deps_(std::move(deps)),
      run_dir_(std::move(run_dir)),
      started_(deps_.clock.Now()),
      wall_before_(state.wall_s()),
      evaluation_tasks_(ChooseEvaluationTasks(deps_.config.evaluation(),
                                              deps_.train, deps_.heldout,
                                              deps_.config.seed())),
      state_(std::move(state)),
      last_heartbeat_(started_),
      last_warning_(started_) {
  *state_.mutable_config() = deps_.config;
  state_.set_incarnation(deps_.policies.incarnation());
  SetStatus("");
}

double Driver::Elapsed() const {
  return wall_before_ + absl::ToDoubleSeconds(deps_.clock.Now() - started_);
}

StreamKey Driver::StageKey() const {
  return StreamKey(deps_.config.seed())
      .Derive({static_cast<uint64_t>(state_.stage())});
}

LearnerStatus Driver::Status() const {
  MutexLock lock(status_mu_);
  LearnerStatus out = status_;
  out.set_outstanding_groups(deps_.leases.outstanding());
  return out;
}

void Driver::SetStatus(const std::string& stage) {
  MutexLock lock(status_mu_);
  status_.set_run_id(state_.run_id());
  status_.set_stage(stage);
  status_.set_step(state_.stage_step());
  status_.set_policy_version(deps_.policies.version());
}

absl::Status Driver::Run(std::stop_token stop) {
  stop_ = stop;
  absl::Status status;
  while (status.ok() && state_.stage() < deps_.config.stages_size()) {
    const Stage& stage = deps_.config.stages(state_.stage());
    status = RunStage(stage);
    if (!status.ok()) break;
    state_.set_stage(state_.stage() + 1);
    state_.set_stage_step(0);
    state_.clear_schedule_cursor();
    restored_.reset();
  }
  if (status.ok()) {
    // A run without RL has one evaluation, that of its SFT.
    const auto& stages = deps_.config.stages();
    const bool any_rl =
        std::any_of(stages.begin(), stages.end(),
                    [](const Stage& stage) { return stage.has_rl(); });
    status = Evaluate(any_rl ? "final" : "sft");
  }
  if (absl::IsCancelled(status)) {
    deps_.leases.Withdraw();
    DICE_LOG(kInfo) << "stopping at step " << state_.step();
    DICE_RETURN_IF_ERROR(SaveNow());
    return status;
  }
  DICE_RETURN_IF_ERROR(status);
  DICE_RETURN_IF_ERROR(SaveNow());
  return deps_.record.Summary(state_);
}

absl::Status Driver::RunStage(const Stage& stage) {
  DICE_RETURN_IF_ERROR(EvaluateWhereDue(stage));
  DICE_RETURN_IF_ERROR(BeginStage(stage));
  SetStatus(stage.name());
  deps_.progress.Touch();
  return stage.has_sft() ? RunSft(stage) : RunRl(stage);
}

absl::Status Driver::EvaluateWhereDue(const Stage& stage) {
  if (!stage.has_rl() || Evaluated("sft")) return absl::OkStatus();
  return Evaluate("sft");
}

absl::Status Driver::BeginStage(const Stage& stage) {
  TrainBatch begin;
  begin.set_kind(TrainBatch::BEGIN_STAGE);
  *begin.mutable_optimizer() = stage.optimizer();
  if (stage.has_rl()) *begin.mutable_loss() = stage.rl().loss();
  DICE_RETURN_IF_ERROR(deps_.trainer.Run(begin).status());
  if (state_.stage_step() > 0 && restored_.has_value()) {
    DICE_RETURN_IF_ERROR(deps_.trainer.SetState(*restored_));
  }
  restored_.reset();
  TrainBatch same;
  same.set_kind(TrainBatch::SYNCHRONIZE);
  return deps_.trainer.Run(same).status();
}

absl::Status Driver::RunSft(const Stage& stage) {
  const ModelConfig& model = deps_.lm.config();
  DICE_ASSIGN_OR_RETURN(
      const auto data,
      SftData::Create(
          {.stage = stage.sft(),
           .block_size = model.block_size,
           .end_id = EndToken(model, deps_.tokenizer, "<|im_end|>"),
           .pad_id = EndToken(model, deps_.tokenizer, "<|endoftext|>"),
           .key = StageKey()},
          deps_.train, deps_.tokenizer),
      "stage sft");
  while (state_.stage_step() < stage.steps()) {
    if (stop_.stop_requested()) return absl::CancelledError("stopped");
    const absl::Time begin = deps_.clock.Now();
    TrainBatch batch = data->MakeBatch(state_.stage_step());
    batch.set_lr(AdamW::LearningRate(stage.optimizer(), state_.stage_step(),
                                     stage.steps()));
    DICE_ASSIGN_OR_RETURN(const UpdateStats stats, deps_.trainer.Run(batch));
    const double seconds = Since(begin, deps_.clock);
    deps_.metrics.phase_seconds["update"].Observe(seconds);
    StepReport report;
    report.stage = stage.name();
    report.stage_steps = stage.steps();
    report.tokens_per_s = batch.label_tokens() / seconds;
    report.grad_norm = stats.grad_norm;
    report.loss = stats.loss;
    report.lr = batch.lr();
    DICE_RETURN_IF_ERROR(EndStep(std::move(report)));
    (*state_.mutable_stage_wall_s())[stage.name()] +=
        Since(begin, deps_.clock);
  }
  return absl::OkStatus();
}

absl::Status Driver::RunRl(const Stage& stage) {
  const RlStage& rl = stage.rl();
  DICE_RETURN_IF_ERROR(Publish());
  DICE_ASSIGN_OR_RETURN(
      TaskSchedule schedule,
      TaskSchedule::Create(rl.schedule(), deps_.train, StageKey().value()),
      stage.name());
  if (!state_.schedule_cursor().empty()) {
    DICE_RETURN_IF_ERROR(schedule.RestoreCursor(state_.schedule_cursor()))
        << stage.name();
  }
  cursors_.clear();
  task_of_.clear();
  GroupPlanner planner({.steps = stage.steps(),
                        .tasks_per_step = rl.tasks_per_step(),
                        .max_staleness = rl.max_staleness(),
                        .first_step = state_.stage_step(),
                        .version_of_step0 = state_.step() -
                                            state_.stage_step()});
  while (state_.stage_step() < stage.steps()) {
    const absl::Time begin = deps_.clock.Now();
    DICE_RETURN_IF_ERROR(RlStep(stage, planner, schedule));
    (*state_.mutable_stage_wall_s())[stage.name()] +=
        Since(begin, deps_.clock);
  }
  return absl::OkStatus();
}

absl::Status Driver::RlStep(const Stage& stage, GroupPlanner& planner,
                            TaskSchedule& schedule) {
  const RlStage& rl = stage.rl();
  const absl::Time begin = deps_.clock.Now();
  DICE_ASSIGN_OR_RETURN(std::vector<CompletedGroup> groups,
                        CollectStep(rl, planner, schedule));
  const absl::Time collected = deps_.clock.Now();
  deps_.metrics.phase_seconds["wait"].Observe(
      absl::ToDoubleSeconds(collected - begin));

  GroupBatch step = MakeGroupBatch(rl, state_.step(), groups);
  TrainBatch& batch = step.batch;
  batch.set_lr(AdamW::LearningRate(stage.optimizer(), state_.stage_step(),
                                   stage.steps()));
  *batch.mutable_loss() = rl.loss();
  batch.set_entropy_bonus(EntropyBonus(rl.loss(), state_.stage_step()));
  batch.set_minibatches(rl.minibatches());
  batch.set_shuffle_seed(
      StageKey().Derive({static_cast<uint64_t>(state_.stage_step())}).value());
  UpdateStats stats;
  if (batch.groups_size() > 0) {
    DICE_ASSIGN_OR_RETURN(stats, deps_.trainer.Run(batch));
  } else {
    DICE_LOG(kWarning) << stage.name() << " step " << state_.stage_step()
                       << ": no group has a signal; the policy stays";
  }
  deps_.metrics.phase_seconds["update"].Observe(
      Since(collected, deps_.clock));

  for (const CompletedGroup& g : groups) {
    int correct = 0, tried = 0;
    for (const Rollout& r : g.rollouts) {
      tried += r.has_reward();
      correct += r.has_reward() && Correct(r.verdict());
    }
    const auto task = task_of_.find(g.lease.task_ordinal());
    schedule.Record(task->second, correct, tried);
    task_of_.erase(task);
  }
  // The cursor of the next step, as it was before that step's slots.
  const auto next = cursors_.find(state_.stage_step() + 1);
  state_.set_schedule_cursor(next != cursors_.end() ? next->second
                                                    : schedule.SaveCursor());
  cursors_.erase(cursors_.begin(),
                 cursors_.upper_bound(state_.stage_step()));
  NoteBest(stage, groups);
  CountGroups(step.stats);
  StepReport report;
  report.stage = stage.name();
  report.stage_steps = stage.steps();
  report.groups = step.stats;
  report.kl = stats.kl;
  report.clip_fraction = stats.clip_fraction;
  report.grad_norm = stats.grad_norm;
  report.loss = stats.loss;
  report.entropy = stats.entropy;
  report.lr = batch.lr();
  DICE_RETURN_IF_ERROR(deps_.record.Rollouts(
      absl::StrFormat("%s_%06d", stage.name(), state_.stage_step() + 1),
      stage.name(), state_.stage_step() + 1, groups));
  const double seconds = Since(begin, deps_.clock);
  report.tokens_per_s = static_cast<double>(step.stats.tokens) / seconds;
  report.evals_per_s = static_cast<double>(step.stats.judge_calls) / seconds;
  return EndStep(std::move(report));
}

absl::Status Driver::EndStep(StepReport report) {
  state_.set_step(state_.step() + 1);
  state_.set_stage_step(state_.stage_step() + 1);
  const Stage& stage = deps_.config.stages(state_.stage());
  if (stage.has_rl()) {
    DICE_RETURN_IF_ERROR(Publish());
  }
  report.step = state_.stage_step();
  report.policy_version = state_.step();
  report.time_s = Elapsed();
  DICE_RETURN_IF_ERROR(deps_.record.Step(report));
  SetStatus(report.stage);
  deps_.progress.Touch();
  LearnerMetrics& m = deps_.metrics;
  m.steps[report.stage].Increment();
  m.loss.Set(report.loss);
  m.grad_norm.Set(report.grad_norm);
  if (stage.has_rl()) {
    m.reward_mean[report.stage].Set(report.groups.reward_mean);
    m.compiled[report.stage].Set(report.groups.compiled);
    m.correct[report.stage].Set(report.groups.correct);
    m.fast_1[report.stage].Set(report.groups.fast_1);
    m.speedup_mean[report.stage].Set(report.groups.speedup_mean);
    m.kl.Set(report.kl);
    m.clip_fraction.Set(report.clip_fraction);
    m.entropy.Set(report.entropy);
    m.staleness.Set(report.groups.staleness_mean);
  }
  if (state_.step() % deps_.config.checkpointing().every_steps() == 0) {
    return SaveNow();
  }
  return absl::OkStatus();
}

}  // namespace dice
