#include "learner/run_record.h"

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

using nlohmann::json;

class RunRecordTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/run_record_test_", getpid());
    std::filesystem::remove_all(dir_);
    record_ = *RunRecord::Create(dir_, 0, live_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::ostringstream live_;
  std::string dir_;
  std::unique_ptr<RunRecord> record_;
};

TEST_F(RunRecordTest, EveryRowHasTheDocumentedKeys) {
  StepReport report;
  report.stage = "infill";
  report.step = 3;
  report.stage_steps = 9;
  report.groups.reward_mean = 0.5;
  ASSERT_TRUE(record_->Step(report).ok());
  report.stage = "sft";
  ASSERT_TRUE(record_->Step(report).ok());
  std::vector<std::string> lines =
      absl::StrSplit(*ReadFile(dir_ + "/metrics.jsonl"), '\n');
  for (int i : {0, 1}) {
    const json row = json::parse(lines[i]);
    for (const char* key :
         {"stage", "step", "time_s", "policy_version", "reward_mean",
          "reward_best", "compiled", "correct", "speedup_mean", "speedup_best",
          "fast_1", "deceptive", "staleness_mean", "tokens_per_s",
          "evals_per_s", "kl", "clip_fraction", "grad_norm", "groups_kept",
          "groups_zero_variance", "infra_errors"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row["step"], 3);
    EXPECT_TRUE(row["kl"].is_null()) << "not a number";
  }
  EXPECT_THAT(live_.str(), testing::HasSubstr("infill        3/9  reward 0.500"));
}

TEST_F(RunRecordTest, RolloutsAreProtobufJsonLines) {
  CompletedGroup group;
  group.rollouts = Rollouts(2);
  group.rollouts[1].set_reward(0.25);
  ASSERT_TRUE(record_->Rollouts("infill_000003", "infill", 3, {group}).ok());
  ASSERT_TRUE(record_->Rollouts("infill_000003", "infill", 3, {group}).ok());
  std::vector<std::string> lines = absl::StrSplit(
      *ReadFile(dir_ + "/rollouts/infill_000003.jsonl"), '\n',
      absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << "written twice, there once";
  Rollout back;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(lines[1], &back).ok());
  EXPECT_EQ(back.reward(), 0.25);
  EXPECT_EQ(back.stage(), "infill");
  EXPECT_EQ(back.response().token_ids_size(), 3);
}

TEST_F(RunRecordTest, SummaryHasTheDocumentedKeys) {
  TrainState state;
  state.mutable_config()->set_seed(4);
  state.set_judge_calls(7);
  for (const char* label : {"sft", "final"}) {
    EvaluationScores* e = state.add_evaluations();
    e->set_label(label);
    for (TaskScore* s : {e->add_train(), e->add_heldout()}) {
      s->set_task_id("t");
      s->set_samples(4);
      s->set_reward_sum(label == std::string("sft") ? 1 : 3);
      s->set_correct(2);
    }
  }
  ASSERT_TRUE(record_->Summary(state).ok());
  const json j = json::parse(*ReadFile(dir_ + "/summary.json"));
  EXPECT_EQ(j["seed"], 4);
  EXPECT_EQ(j["judge_calls"], 7);
  for (const char* set : {"train", "heldout"}) {
    for (const char* key :
         {"_reward_sft", "_reward_final", "_reward_gain", "_reward_gain_lo",
          "_reward_gain_hi", "_correct_sft", "_correct_final",
          "_greedy_correct_sft", "_greedy_correct_final", "_speedup_sft",
          "_speedup_final"}) {
      EXPECT_TRUE(j.contains(std::string(set) + key)) << set << key;
    }
  }
  EXPECT_DOUBLE_EQ(j["heldout_reward_gain"], 0.5);
  EXPECT_FALSE(j.contains("best_kernel"));
}

}  // namespace
}  // namespace dice
