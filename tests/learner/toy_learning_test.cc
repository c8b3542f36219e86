// Policy gradient from scratch, through the real sampler and trainer, on a task
// with a known optimum: reward = share of the response's tokens that equal the
// prompt's own target. A sign error, a wrong mask or a misplaced log-probability
// anywhere between sampler and optimizer keeps it from getting there.
#include <cmath>
#include <deque>

#include "actor/sampler.h"
#include "gtest/gtest.h"
#include "learner/reward.h"
#include "learner/trainer.h"
#include "tests/learner/tiny_model.h"

namespace dice {
namespace {

constexpr int kPrompts = 3, kGroup = 24, kLength = 4, kMaxSteps = 220;

ModelConfig ToyModel() {
  ModelConfig c = TinyConfig();
  c.vocab_size = 10;
  c.num_real_tokens = 9;
  c.mask_token_id = 8;
  c.hidden_size = 32;
  c.intermediate_size = 64;
  c.num_layers = 1;
  c.num_heads = 2;
  c.num_kv_heads = 2;
  c.head_dim = 16;
  c.head_init_std = 0.02;
  return c;
}

int32_t Target(int prompt, int place) { return 1 + (prompt * 3 + place) % 7; }

double ShareRight(int prompt, const Response& r) {
  double right = 0;
  for (int i = 0; i < r.num_trained() && i < kLength; ++i) {
    right += r.token_ids(i) == Target(prompt, i);
  }
  return right / kLength;
}

// One group of responses for each prompt, from the policy as it is.
std::vector<std::vector<Response>> SampleGroups(DiffusionLm& lm,
                                                StreamKey key) {
  SamplingConfig config;
  config.set_strategy(DYNAMIC);
  config.set_temperature(1);
  config.set_confidence_threshold(0.9);
  config.set_steps_per_block(4);
  config.set_max_response_tokens(kLength);
  Sampler sampler(lm, {});
  for (uint64_t i = 0; i < kPrompts * kGroup; ++i) {
    const int32_t prompt = static_cast<int32_t>(i / kGroup);
    sampler.Add({.id = i,
                 .prompt = {prompt + 1, prompt + 1, prompt + 1, prompt + 1},
                 .key = key.Derive({i}),
                 .config = config});
  }
  std::vector<std::vector<Response>> out(kPrompts,
                                         std::vector<Response>(kGroup));
  while (sampler.pending() > 0) {
    sampler.Step([&](uint64_t id, Response r) {
      out[id / kGroup][id % kGroup] = std::move(r);
    });
  }
  return out;
}

// Adds the groups to `batch`; returns the mean reward.
double AddGroups(const std::vector<std::vector<Response>>& groups,
                 TrainBatch* batch) {
  double sum = 0;
  for (int p = 0; p < kPrompts; ++p) {
    std::vector<std::optional<double>> rewards;
    for (const Response& r : groups[p]) {
      rewards.push_back(ShareRight(p, r));
      sum += *rewards.back();
    }
    const auto advantages = ComputeAdvantages(rewards, Z_SCORE, 1);
    TrainBatchGroup* g = batch->add_groups();
    for (int i = 0; i < 4; ++i) g->add_prompt(p + 1);
    for (int i = 0; i < kGroup; ++i) {
      const Response& r = groups[p][i];
      TrainBatchSequence* s = g->add_responses();
      *s->mutable_tokens() = r.token_ids();
      *s->mutable_steps() = r.steps();
      *s->mutable_behavior_logprobs() = r.logprobs();
      s->set_num_trained(r.num_trained());
      s->set_advantage(static_cast<float>(advantages[i]));
    }
  }
  return sum / (kPrompts * kGroup);
}

// Mean reward over the best five steps in a row.
double Train(uint64_t seed) {
  auto lm = *DiffusionLm::Create(ToyModel(), seed);
  auto group = *CreateProcessGroup(RankInfo(), {});
  Trainer trainer(*lm, *group);
  TrainBatch begin;
  begin.set_kind(TrainBatch::BEGIN_STAGE);
  begin.mutable_optimizer()->set_beta2(0.95);
  begin.mutable_optimizer()->set_clip_norm(1);
  EXPECT_TRUE(trainer.Run(begin).ok());
  PolicyLoss loss;
  loss.set_clip_low(0.2);
  loss.set_clip_high(0.2);
  loss.set_normalizer(TOKEN_MEAN);
  loss.set_importance_cap(2);
  loss.set_entropy_bonus(0.03);
  loss.set_entropy_bonus_decay_steps(100);
  std::deque<double> last;
  double best = 0;
  for (uint64_t step = 0; step < kMaxSteps && best < 0.97; ++step) {
    TrainBatch batch;
    batch.set_kind(TrainBatch::POLICY);
    batch.set_lr(5e-3);
    *batch.mutable_loss() = loss;
    batch.set_entropy_bonus(EntropyBonus(loss, static_cast<int64_t>(step)));
    last.push_back(AddGroups(
        SampleGroups(*lm, StreamKey(seed).Derive({step})), &batch));
    if (last.size() > 5) last.pop_front();
    double mean = 0;
    for (const double r : last) mean += r / 5;
    best = std::max(best, mean);
    const auto stats = trainer.Run(batch);
    EXPECT_TRUE(stats.ok()) << stats.status();
    // The learner's own scores of what was just sampled agree with the
    // sampler's.
    EXPECT_LT(stats->kl, 1e-4);
    if (!stats.ok() || stats->kl > 1e-4) return best;
  }
  return best;
}

TEST(ToyLearningTest, DISABLED_ReachesTheOptimumFromScratchOnEverySeed) {
  at::set_num_threads(1);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_GE(Train(seed), 0.95) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dice
