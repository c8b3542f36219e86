#include "learner/group_batch.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

RlStage Stage(ZeroVariance zero) {
  RlStage s;
  s.mutable_reward()->set_w_correct(1);
  s.mutable_loss()->set_advantage(MEAN_ONLY);
  s.mutable_loss()->set_negative_advantage_scale(1);
  s.mutable_loss()->set_zero_variance(zero);
  return s;
}

CompletedGroup Judged(std::vector<Verdict> verdicts, int64_t version = 3) {
  CompletedGroup g;
  g.lease.set_num_samples(static_cast<int>(verdicts.size()));
  g.rollouts = Rollouts(static_cast<int>(verdicts.size()), version);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    g.rollouts[i].add_prompt_ids(7);
    *g.rollouts[i].mutable_verdict() = verdicts[i];
  }
  return g;
}

std::vector<CompletedGroup> Mixed() {
  std::vector<CompletedGroup> groups = {
      Judged({MakeVerdict(CORRECT, 2), MakeVerdict(COMPILE_ERROR),
              MakeVerdict(CORRECT, 0.5)}),
      Judged({MakeVerdict(WRONG_RESULT), MakeVerdict(DECEPTIVE, 9)}, 4)};
  CompletedGroup lost;
  lost.lost = true;
  lost.lease.set_num_samples(5);
  groups.push_back(lost);
  return groups;
}

TEST(GroupBatchTest, KeepsGroupsWithASignalAndDescribesAll) {
  auto groups = Mixed();
  groups[0].rollouts.push_back(Rollouts(4, 3)[3]);  // no verdict
  const GroupBatch out = MakeGroupBatch(Stage(DROP), 4, groups);
  ASSERT_EQ(out.batch.groups_size(), 1);
  EXPECT_EQ(out.batch.groups(0).prompt(0), 7);
  ASSERT_EQ(out.batch.groups(0).responses_size(), 3) << "the lost one is out";
  EXPECT_FLOAT_EQ(out.batch.groups(0).responses(1).advantage(), -2.0f / 3);
  EXPECT_EQ(out.batch.groups(0).responses(1).behavior_logprobs_size(), 3);
  EXPECT_DOUBLE_EQ(groups[0].rollouts[1].advantage(), -2.0 / 3);
  EXPECT_FALSE(groups[0].rollouts[3].has_reward());

  const GroupStats& s = out.stats;
  EXPECT_EQ(s.groups_kept, 1);
  EXPECT_EQ(s.groups_zero_variance, 1);
  EXPECT_EQ(s.infra_errors, 6);
  EXPECT_EQ(s.judge_calls, 5);
  EXPECT_DOUBLE_EQ(s.reward_mean, 2.0 / 5);
  EXPECT_DOUBLE_EQ(s.reward_best, 1);
  EXPECT_DOUBLE_EQ(s.correct, 2.0 / 5);
  EXPECT_DOUBLE_EQ(s.compiled, 4.0 / 5);
  EXPECT_DOUBLE_EQ(s.deceptive, 1.0 / 5);
  EXPECT_DOUBLE_EQ(s.fast_1, 1.0 / 5);
  EXPECT_NEAR(s.speedup_mean, 1, 1e-9);
  EXPECT_DOUBLE_EQ(s.speedup_best, 2);
  EXPECT_DOUBLE_EQ(s.staleness_mean, 4.0 / 6);
  EXPECT_EQ(s.tokens, 18);
}

TEST(GroupBatchTest, KeepKeepsGroupsWithoutASignal) {
  auto groups = Mixed();
  const GroupBatch out = MakeGroupBatch(Stage(KEEP), 4, groups);
  ASSERT_EQ(out.batch.groups_size(), 2);
  EXPECT_EQ(out.batch.groups(1).responses(0).advantage(), 0);
  EXPECT_EQ(out.stats.groups_kept, 2);
  EXPECT_EQ(out.stats.groups_zero_variance, 1);
}

TEST(GroupBatchTest, SignalMeansUnequalRewards) {
  const auto groups = Mixed();
  EXPECT_TRUE(HasSignal(groups[0], Stage(DROP).reward()));
  EXPECT_FALSE(HasSignal(groups[1], Stage(DROP).reward()));
  EXPECT_FALSE(HasSignal(groups[2], Stage(DROP).reward()));
}

TEST(GroupBatchTest, NothingButLossGivesNoNumbers) {
  std::vector<CompletedGroup> groups = {Mixed()[2]};
  const GroupBatch out = MakeGroupBatch(Stage(DROP), 4, groups);
  EXPECT_EQ(out.batch.groups_size(), 0);
  EXPECT_TRUE(std::isnan(out.stats.reward_mean));
  EXPECT_TRUE(std::isnan(out.stats.staleness_mean));
}

}  // namespace
}  // namespace dice
