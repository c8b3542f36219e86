#include "learner/reward.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

Reward Config() {
  Reward c;
  c.set_w_compile(0.1);
  c.set_w_correct(0.6);
  c.set_w_speed(0.3);
  c.set_speed_log2_min(-1);
  c.set_speed_log2_max(3);
  c.set_library_factor(0.3);
  return c;
}

Rollout Judged(Outcome outcome, JudgeStage stage, double speedup = 0,
               double lo = 0, double hi = 0, Blame blame = BLAME_CANDIDATE) {
  Rollout r;
  Verdict* v = r.mutable_verdict();
  v->set_outcome(outcome);
  v->set_stage(stage);
  v->set_blame(blame);
  v->set_speedup(speedup);
  v->set_speedup_lo(lo);
  v->set_speedup_hi(hi);
  return r;
}

TEST(RewardTest, IsATotalFunctionOfTheVerdict) {
  const Reward c = Config();
  EXPECT_EQ(ComputeReward(c, Judged(COMPILE_ERROR, STAGE_COMPILE)), 0);
  EXPECT_EQ(ComputeReward(c, Judged(FORMAT_ERROR, STAGE_PARSE)), 0);
  EXPECT_NEAR(*ComputeReward(c, Judged(RUNTIME_ERROR, STAGE_CORRECTNESS)), 0.1,
              1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(WRONG_RESULT, STAGE_CORRECTNESS)), 0.1,
              1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(DECEPTIVE, STAGE_TIMING, 9, 8, 10)), 0.1,
              1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(CORRECT, STAGE_TIMING)), 0.7, 1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(CORRECT, STAGE_TIMING, 2, 1.9, 2.1)),
              0.8, 1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(CORRECT, STAGE_TIMING, 64, 60, 70)), 1,
              1e-12);
  EXPECT_NEAR(*ComputeReward(c, Judged(CORRECT, STAGE_TIMING, 0.1, 0.1, 0.1)),
              0.6, 1e-12)
      << "slower than the baseline has a slope down to the clip";
  EXPECT_NEAR(*ComputeReward(c, Judged(CORRECT, STAGE_TIMING, 1.2, 0.9, 1.4)),
              0.7, 1e-12)
      << "not told apart from 1";
}

TEST(RewardTest, NothingButACandidatesOwnDoingIsRewarded) {
  const Reward c = Config();
  EXPECT_EQ(ComputeReward(c, Rollout()), std::nullopt);
  EXPECT_EQ(ComputeReward(c, Judged(TASK_ERROR, STAGE_LOAD, 0, 0, 0,
                                    BLAME_TASK)),
            std::nullopt);
  EXPECT_EQ(ComputeReward(c, Judged(UNSUPPORTED, STAGE_COMPILE, 0, 0, 0,
                                    BLAME_NONE)),
            std::nullopt);
}

TEST(RewardTest, LibraryCallsEarnAFraction) {
  Rollout r = Judged(CORRECT, STAGE_TIMING, 8, 7, 9);
  r.mutable_verdict()->set_work("library");
  EXPECT_NEAR(*ComputeReward(Config(), r), 0.3, 1e-12);
}

TEST(AdvantageTest, EachKindFollowsItsFormula) {
  const std::vector<std::optional<double>> r = {1, 0, std::nullopt, 0.5};
  const double std = std::sqrt(1.0 / 6);
  EXPECT_THAT(ComputeAdvantages(r, Z_SCORE, 1),
              testing::Pointwise(testing::DoubleNear(1e-4),
                                 {0.5 / std, -0.5 / std, 0.0, 0.0}));
  EXPECT_THAT(ComputeAdvantages(r, MEAN_ONLY, 1),
              testing::ElementsAre(0.5, -0.5, 0, 0));
  EXPECT_THAT(ComputeAdvantages(r, LEAVE_ONE_OUT, 1),
              testing::ElementsAre(0.75, -0.75, 0, 0));
  EXPECT_THAT(ComputeAdvantages(r, MEAN_ONLY, 0.3),
              testing::ElementsAre(0.5, -0.15, 0, 0));
}

TEST(AdvantageTest, EqualRewardsGiveNone) {
  EXPECT_THAT(ComputeAdvantages({0.3, 0.3, std::nullopt}, Z_SCORE, 1),
              testing::Each(0));
  EXPECT_THAT(ComputeAdvantages({0.3, std::nullopt}, Z_SCORE, 1),
              testing::Each(0));
}

}  // namespace
}  // namespace dice
