#include "learner/evaluation.h"

#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

std::vector<Task> MakeTasks(const std::string& prefix, int n) {
  std::vector<Task> out(n);
  for (int i = 0; i < n; ++i) {
    out[i].set_id(absl::StrCat(prefix, i));
    out[i].set_family(i % 4 == 0 ? "a" : "b");
  }
  return out;
}

Evaluation Config() {
  Evaluation e;
  e.set_train_tasks(8);
  e.set_heldout_tasks(50);
  e.set_samples_per_task(4);
  e.set_greedy(true);
  e.mutable_reward()->set_w_correct(1);
  return e;
}

TEST(EvaluationTasksTest, AreAFixedFairChoice) {
  const auto train = MakeTasks("t", 32), heldout = MakeTasks("h", 5);
  const auto a = ChooseEvaluationTasks(Config(), train, heldout, 1);
  const auto b = ChooseEvaluationTasks(Config(), train, heldout, 1);
  ASSERT_EQ(a.train.size(), 8u);
  EXPECT_EQ(a.heldout.size(), 5u) << "all there are";
  std::set<std::string> ids;
  std::map<std::string, int> families;
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(a.train[i].id(), b.train[i].id());
    ids.insert(a.train[i].id());
    ++families[a.train[i].family()];
  }
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_THAT(families["a"], testing::AllOf(testing::Ge(1), testing::Le(3)));
}

TEST(EvaluationPassTest, AsksTheSameOfEveryPolicyAndScoresIt) {
  const Evaluation config = Config();
  const EvaluationTasks tasks{MakeTasks("t", 2), MakeTasks("h", 1)};
  EvaluationPass pass(config, tasks, "sft");
  const auto leases = pass.Leases();
  ASSERT_EQ(leases.size(), 6u);
  EXPECT_EQ(EvaluationPass(config, tasks, "final").Leases()[3].SerializeAsString(),
            leases[3].SerializeAsString());
  std::set<int64_t> ordinals;
  for (const Lease& lease : leases) {
    EXPECT_TRUE(ordinals.insert(lease.task_ordinal()).second);
    EXPECT_EQ(lease.purpose(), EVALUATE);
    CompletedGroup group;
    group.lease = lease;
    group.rollouts = Rollouts(lease.num_samples());
    for (size_t i = 0; i < group.rollouts.size(); ++i) {
      // Of four samples one is lost and two are right.
      if (i == 3) continue;
      *group.rollouts[i].mutable_verdict() =
          MakeVerdict(i == 0 ? WRONG_RESULT : CORRECT, 2);
    }
    pass.Add(group);
  }
  EXPECT_EQ(pass.scores().label(), "sft");
  ASSERT_EQ(pass.scores().train_size(), 2);
  EXPECT_EQ(pass.scores().heldout(0).task_id(), "h0");
  const ScoreSummary s = Summarize(pass.scores().train());
  EXPECT_NEAR(s.reward, 2.0 / 3, 1e-9);
  EXPECT_NEAR(s.correct, 2.0 / 3, 1e-9);
  EXPECT_EQ(s.greedy_correct, 0);
  EXPECT_NEAR(s.speedup, 2, 1e-9);
}

google::protobuf::RepeatedPtrField<TaskScore> Scores(
    const std::vector<double>& rewards) {
  google::protobuf::RepeatedPtrField<TaskScore> out;
  for (size_t i = 0; i < rewards.size(); ++i) {
    TaskScore* s = out.Add();
    s->set_task_id(absl::StrCat(i));
    s->set_samples(2);
    s->set_reward_sum(2 * rewards[i]);
  }
  return out;
}

TEST(RewardGainTest, IsTheMeanDifferenceWithItsInterval) {
  std::vector<double> before(100), after(100);
  for (int i = 0; i < 100; ++i) {
    before[i] = 0.01 * i;
    after[i] = before[i] + (i % 2 == 0 ? 0.3 : 0.1);
  }
  const Gain gain = RewardGain(Scores(before), Scores(after), 5);
  EXPECT_NEAR(gain.mean, 0.2, 1e-9);
  // 0.1 per task, 100 tasks: +-1.96 * 0.01.
  EXPECT_NEAR(gain.lo, 0.18, 0.004);
  EXPECT_NEAR(gain.hi, 0.22, 0.004);
  const Gain none = RewardGain(Scores({}), Scores(after), 5);
  EXPECT_TRUE(std::isnan(none.lo));
}

}  // namespace
}  // namespace dice
