#include "learner/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/checkpoint_test_", getpid());
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  static Checkpoint Of(int64_t step) {
    Checkpoint c;
    c.model_config = "{}";
    c.weights = absl::StrCat("weights of ", step);
    c.optimizer = absl::StrCat("optimizer of ", step);
    c.state.set_step(step);
    c.state.set_run_id("run");
    (*c.state.mutable_stage_wall_s())["sft"] = 1.5;
    return c;
  }
  int64_t LatestStep() {
    const auto c = LoadLatestCheckpoint(dir_);
    return c.ok() ? c->state.step() : -1;
  }

  std::string dir_;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  Checkpoint in = Of(7);
  in.reference = "reference";
  const auto path = SaveCheckpoint(dir_, in, 2);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, dir_ + "/checkpoints/step_000007");
  const auto out = LoadLatestCheckpoint(dir_);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->weights, in.weights);
  EXPECT_EQ(out->optimizer, in.optimizer);
  EXPECT_EQ(out->reference, in.reference);
  EXPECT_EQ(out->state.SerializeAsString(), in.state.SerializeAsString());
}

TEST_F(CheckpointTest, KeepsTheNewestAndNothingElse) {
  for (const int step : {1, 2, 10, 11}) {
    ASSERT_TRUE(SaveCheckpoint(dir_, Of(step), 2).ok());
  }
  EXPECT_THAT(ListCheckpoints(dir_),
              testing::ElementsAre(dir_ + "/checkpoints/step_000010",
                                   dir_ + "/checkpoints/step_000011"));
}

TEST_F(CheckpointTest, AStepThatIsRepeatedReplacesItsCheckpoint) {
  ASSERT_TRUE(SaveCheckpoint(dir_, Of(3), 2).ok());
  Checkpoint again = Of(3);
  again.weights = "other";
  ASSERT_TRUE(SaveCheckpoint(dir_, again, 2).ok());
  EXPECT_EQ(LoadLatestCheckpoint(dir_)->weights, "other");
}

TEST_F(CheckpointTest, NoneIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(LoadLatestCheckpoint(dir_).status()));
}

// Cut every part at every length, and flip every byte: the older one counts.
TEST_F(CheckpointTest, TornAtAnyByteItDoesNotCount) {
  ASSERT_TRUE(SaveCheckpoint(dir_, Of(1), 2).ok());
  ASSERT_TRUE(SaveCheckpoint(dir_, Of(2), 2).ok());
  ASSERT_EQ(LatestStep(), 2);
  for (const auto& entry :
       fs::directory_iterator(dir_ + "/checkpoints/step_000002")) {
    const std::string path = entry.path();
    const std::string whole = *ReadFile(path);
    const bool manifest = entry.path().filename() == "manifest.json";
    for (size_t n = 0; n < whole.size(); n += manifest ? 1 : 3) {
      std::ofstream(path, std::ios::binary) << whole.substr(0, n);
      ASSERT_EQ(LatestStep(), 1) << path << " cut to " << n;
      if (manifest) continue;
      std::string flipped = whole;
      flipped[n] ^= 1;
      std::ofstream(path, std::ios::binary) << flipped;
      ASSERT_EQ(LatestStep(), 1) << path << " flipped at " << n;
    }
    fs::remove(path);
    ASSERT_EQ(LatestStep(), 1) << path << " is gone";
    std::ofstream(path, std::ios::binary) << whole;
  }
  EXPECT_EQ(LatestStep(), 2);
}

}  // namespace
}  // namespace dice
