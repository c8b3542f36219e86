#include "cli/train_plan.h"

#include <filesystem>

#include "common/base/file.h"
#include "common/rpc/ready_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class TrainPlanTest : public ::testing::Test {
 protected:
  TrainPlanTest() {
    std::string pattern = ::testing::TempDir() + "plan_XXXXXX";
    places_.run_dir = std::filesystem::path(mkdtemp(pattern.data()))
                          .lexically_normal();
    places_.bin_dir = places_.run_dir + "/bin";
    places_.config = places_.run_dir + "/config.pbtxt";
    EXPECT_TRUE(MakeDirs(places_.run_dir + "/ready").ok());
    config_.mutable_topology()->set_learner_ranks(2);
    config_.mutable_topology()->set_learner_threads(3);
    config_.mutable_model()->set_checkpoint_dir("/ckpt");
  }
  ~TrainPlanTest() override { std::filesystem::remove_all(places_.run_dir); }
  // The argument after `flag`.
  static std::string Flag(const ChildSpec& child, const std::string& flag) {
    const auto it = std::find(child.argv.begin(), child.argv.end(), flag);
    return it == child.argv.end() || it + 1 == child.argv.end() ? ""
                                                                : *(it + 1);
  }

  RunPlaces places_;
  Config config_;
};

TEST_F(TrainPlanTest, RanksFindEachOtherByTheEnvironment) {
  const GroupSpec group = LearnerGroup(config_, places_, "0", false);
  const auto ranks = group.make(0);
  ASSERT_EQ(ranks.size(), 2);
  EXPECT_THAT(ranks[1].env, Contains(Pair("RANK", "1")));
  EXPECT_THAT(ranks[1].env, Contains(Pair("WORLD_SIZE", "2")));
  EXPECT_THAT(ranks[1].env, Contains(Pair("OMP_NUM_THREADS", "3")));
  const auto port = [](const ChildSpec& c) {
    for (const auto& [k, v] : c.env) {
      if (k == "MASTER_PORT") return v;
    }
    return std::string();
  };
  EXPECT_EQ(port(ranks[0]), port(ranks[1]));
  EXPECT_NE(port(ranks[0]), "0");
  EXPECT_EQ(Flag(ranks[0], "--port"), "0");
  EXPECT_THAT(ranks[1].argv, Not(Contains("--port")));
}

TEST_F(TrainPlanTest, ALaterLifeResumesOnlyWhereThereIsACheckpoint) {
  const GroupSpec group = LearnerGroup(config_, places_, "0", false);
  EXPECT_THAT(group.make(0)[0].argv, Not(Contains("--resume")));
  EXPECT_THAT(group.make(1)[0].argv, Not(Contains("--resume")));
  ASSERT_TRUE(MakeDirs(places_.run_dir + "/checkpoints/step_000001").ok());
  EXPECT_THAT(group.make(2)[1].argv, Contains("--resume"));
  EXPECT_THAT(LearnerGroup(config_, places_, "0", false).make(0)[0].argv,
              Not(Contains("--resume")));
  EXPECT_THAT(LearnerGroup(config_, places_, "0", true).make(0)[0].argv,
              Contains("--resume"));
}

TEST_F(TrainPlanTest, AServerComesBackOnThePortItHad) {
  const GroupSpec group = PoolGroup(config_, places_, "0");
  EXPECT_EQ(Flag(group.make(0)[0], "--port"), "0");
  ASSERT_TRUE(
      WriteReadyFile(places_.Ready("pool"), {.address = "127.0.0.1:4711"})
          .ok());
  EXPECT_EQ(Flag(group.make(1)[0], "--port"), "4711");
  std::filesystem::remove(places_.Ready("pool"));  // died before it was ready
  EXPECT_EQ(Flag(group.make(2)[0], "--port"), "4711");
}

TEST_F(TrainPlanTest, ActorsReadModelAndTokenizerOfTheCheckpoint) {
  const auto actor = ActorGroup(config_, places_, 4, "l:1", "p:2").make(0)[0];
  EXPECT_EQ(actor.name, "actor-4");
  EXPECT_EQ(Flag(actor, "--tokenizer"), "/ckpt");
  EXPECT_EQ(Flag(actor, "--model-config"), "/ckpt/config.json");
  EXPECT_EQ(Flag(actor, "--learner"), "l:1");
  EXPECT_EQ(Flag(actor, "--evaluator"), "p:2");
}

TEST_F(TrainPlanTest, BinariesAreFoundInABuildAndInABundle) {
  EXPECT_EQ(places_.Binary("actor", "dice-actor"),
            places_.bin_dir + "/dice-actor");
  ASSERT_TRUE(MakeDirs(places_.run_dir + "/actor/dice-actor").ok());
  ASSERT_TRUE(MakeDirs(places_.bin_dir).ok());
  EXPECT_EQ(places_.Binary("actor", "dice-actor"),
            places_.run_dir + "/actor/dice-actor");
}

}  // namespace
}  // namespace dice::cli
