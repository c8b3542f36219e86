#include "learner/trainer.h"

#include <thread>

#include "gtest/gtest.h"
#include "tests/learner/tiny_model.h"
#include "tests/testing/free_port.h"

namespace dice {
namespace {

TrainBatch Batch(TrainBatch::Kind kind, uint64_t seed) {
  TrainBatch b;
  b.set_kind(kind);
  b.set_lr(1e-2);
  b.set_label_tokens(40);
  b.mutable_loss()->set_clip_low(0.2);
  b.mutable_loss()->set_clip_high(0.2);
  b.mutable_loss()->set_normalizer(TOKEN_MEAN);
  float advantage = 1;
  for (const TrainGroup& g : RandomGroups(seed, 5)) {
    TrainBatchGroup* out = b.add_groups();
    out->mutable_prompt()->Add(g.prompt.begin(), g.prompt.end());
    for (const TrainSequence& s : g.responses) {
      TrainBatchSequence* r = out->add_responses();
      r->mutable_tokens()->Add(s.tokens.begin(), s.tokens.end());
      r->mutable_steps()->Add(s.steps.begin(), s.steps.end());
      r->mutable_behavior_logprobs()->Resize(s.tokens.size(), -2);
      r->set_num_trained(s.num_trained);
      r->set_advantage(advantage = -0.9f * advantage);
      r->mutable_weights()->Resize(s.tokens.size(), 1.5);
    }
  }
  return b;
}

Optimizer Adam() {
  Optimizer o;
  o.set_lr(1e-2);
  o.set_clip_norm(1);
  return o;
}

// Weights after a few updates on `size` ranks (threads of one process).
std::string Train(int size, int minibatches) {
  const int port = FreePort();
  std::string out;
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&, r] {
      RankInfo info{.rank = r, .world_size = size, .master_port = port};
      auto group = *CreateProcessGroup(info, {.run_key = "t"});
      // Ranks take over the weights of rank 0.
      auto lm = *DiffusionLm::Create(TinyConfig(), 5 + r);
      Trainer trainer(*lm, *group, {.max_rows = 200});
      if (r > 0) {
        EXPECT_TRUE(trainer.Serve().ok());
        return;
      }
      TrainBatch begin;
      begin.set_kind(TrainBatch::SYNCHRONIZE);
      ASSERT_TRUE(trainer.Run(begin).ok());
      begin.set_kind(TrainBatch::BEGIN_STAGE);
      *begin.mutable_optimizer() = Adam();
      ASSERT_TRUE(trainer.Run(begin).ok());
      for (int i = 0; i < 3; ++i) {
        TrainBatch b = Batch(i == 0 ? TrainBatch::SFT : TrainBatch::POLICY, i);
        b.set_minibatches(i == 0 ? 1 : minibatches);
        const auto stats = trainer.Run(b);
        ASSERT_TRUE(stats.ok()) << stats.status();
        EXPECT_GT(stats->loss_tokens, 0);
        EXPECT_GT(stats->grad_norm, 0);
      }
      TrainBatch stop;
      stop.set_kind(TrainBatch::STOP);
      ASSERT_TRUE(trainer.Run(stop).ok());
      out = *lm->SerializeWeights();
    });
  }
  for (auto& t : ranks) t.join();
  return out;
}

double Distance(const std::string& a, const std::string& b) {
  const NamedTensors x = *ParseSafetensors(a), y = *ParseSafetensors(b);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most,
                    (x[i].second - y[i].second).abs().max().item<double>());
  }
  return most;
}

TEST(TrainerTest, OneAndTwoRanksGiveTheSameWeightsUpToSummationOrder) {
  const std::string one = Train(1, 1);
  EXPECT_LE(Distance(one, Train(2, 1)), 2e-4);
  EXPECT_GT(Distance(one, *(*DiffusionLm::Create(TinyConfig(), 5))
                               ->SerializeWeights()),
            1e-2);
}

TEST(TrainerTest, MinibatchesClipAgainstThePolicyBeforeTheUpdate) {
  EXPECT_LE(Distance(Train(1, 3), Train(2, 3)), 5e-4);
  EXPECT_GT(Distance(Train(1, 3), Train(1, 1)), 1e-3);
}

TEST(TrainerTest, SharesPartitionTheBatch) {
  const TrainBatch b = Batch(TrainBatch::POLICY, 3);
  for (int size : {1, 2, 3, 7, 40}) {
    int responses = 0;
    for (int r = 0; r < size; ++r) {
      for (const auto& g : ShareOfRank(b, r, size, TinyConfig())) {
        responses += g.responses_size();
      }
    }
    EXPECT_EQ(responses, 15) << size;
  }
}

}  // namespace
}  // namespace dice
