// Every default of the configuration, in one place.
#include <thread>

#include "common/config/config.h"

namespace dice {
namespace {

int Cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// proto3 scalars: 0 and "" mean "not set".
#define DICE_DEFAULT(message, field, value) \
  if (!(message)->field()) (message)->set_##field(value)
#define DICE_DEFAULT_TEXT(message, field, value) \
  if ((message)->field().empty()) (message)->set_##field(value)
// Fields where 0 has a meaning are `optional`.
#define DICE_DEFAULT_OPTIONAL(message, field, value) \
  if (!(message)->has_##field()) (message)->set_##field(value)

void Fill(Optimizer* o) {
  DICE_DEFAULT_OPTIONAL(o, beta1, 0.9);
  DICE_DEFAULT_OPTIONAL(o, beta2, 0.999);
  DICE_DEFAULT_OPTIONAL(o, eps, 1e-8);
}

void Fill(Reward* r) {
  DICE_DEFAULT_OPTIONAL(r, speed_log2_min, -1);
  DICE_DEFAULT_OPTIONAL(r, speed_log2_max, 3);
  DICE_DEFAULT_OPTIONAL(r, library_factor, 0.3);
}

void Fill(SamplingConfig* s) {
  DICE_DEFAULT(s, strategy, DYNAMIC);
  DICE_DEFAULT(s, temperature, 1);
  DICE_DEFAULT(s, confidence_threshold, 0.9);
  DICE_DEFAULT(s, steps_per_block, 4);
}

void Fill(PolicyLoss* l) {
  DICE_DEFAULT_OPTIONAL(l, clip_low, 0.2);
  DICE_DEFAULT_OPTIONAL(l, clip_high, 0.2);
  DICE_DEFAULT_OPTIONAL(l, negative_advantage_scale, 1);
  DICE_DEFAULT(l, advantage, Z_SCORE);
  DICE_DEFAULT(l, normalizer, TOKEN_MEAN);
  DICE_DEFAULT(l, zero_variance, DROP);
}

void Fill(RlStage* rl) {
  DICE_DEFAULT(rl, schedule, SHUFFLED);
  DICE_DEFAULT(rl, minibatches, 1);
  Fill(rl->mutable_sampling());
  Fill(rl->mutable_loss());
  Fill(rl->mutable_reward());
}

void Fill(Judge* j) {
  DICE_DEFAULT_TEXT(j, device, "auto");
  DICE_DEFAULT_TEXT(j, isolation, "auto");
  DICE_DEFAULT(j, worker_slots, Cores());
  DICE_DEFAULT(j, queue_limit, 16384);
  DICE_DEFAULT(j->mutable_profile(), seeds, 3);
  DICE_DEFAULT(j->mutable_profile(), timeout_s, 10);
}

void Fill(Topology* t) {
  DICE_DEFAULT(t, learner_ranks, 1);
  DICE_DEFAULT(t, actors, 1);
  DICE_DEFAULT(t, workers, 1);
  DICE_DEFAULT(t, learner_threads, std::max(1, Cores() / t->learner_ranks()));
  DICE_DEFAULT(t, actor_threads, std::max(1, Cores() / t->actors()));
  DICE_DEFAULT(t, actor_batch, 64);
}

// What is not said about evaluation is as in the last RL stage.
void FillEvaluation(Config* config) {
  Evaluation* e = config->mutable_evaluation();
  DICE_DEFAULT(e, samples_per_task, 1);
  for (auto it = config->stages().rbegin(); it != config->stages().rend();
       ++it) {
    if (!it->has_rl()) continue;
    DICE_DEFAULT(e, mode, it->rl().mode());
    if (!e->has_reward()) *e->mutable_reward() = it->rl().reward();
    if (!e->has_sampling()) *e->mutable_sampling() = it->rl().sampling();
    break;
  }
  DICE_DEFAULT(e, mode, END_TO_END);
  Fill(e->mutable_reward());
  Fill(e->mutable_sampling());
}

}  // namespace

void FillDefaults(Config* config) {
  DICE_DEFAULT_TEXT(config->mutable_model(), dtype, "fp32");
  config->mutable_tasks();
  for (Stage& stage : *config->mutable_stages()) {
    Fill(stage.mutable_optimizer());
    if (stage.has_sft()) DICE_DEFAULT(stage.mutable_sft(), mask_rate_max, 1);
    if (stage.has_rl()) Fill(stage.mutable_rl());
  }
  FillEvaluation(config);
  Fill(config->mutable_judge());
  Fill(config->mutable_topology());
  DICE_DEFAULT(config->mutable_checkpointing(), every_steps, 50);
  DICE_DEFAULT(config->mutable_checkpointing(), keep, 2);
}

}  // namespace dice
