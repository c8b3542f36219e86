#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/parallel/process_group.h"
#include "common/parallel/rank.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/free_port.h"

namespace dice {
namespace {

absl::StatusOr<RankInfo> Discover(std::map<std::string, std::string> env) {
  return DiscoverRank([env](const std::string& n) -> std::optional<std::string> {
    const auto it = env.find(n);
    if (it == env.end()) return std::nullopt;
    return it->second;
  });
}

TEST(DiscoverRankTest, ReadsEachLauncherAndSaysWhichWon) {
  EXPECT_EQ(Discover({})->world_size, 1);
  const std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"MASTER_PORT", "9"}};
  EXPECT_EQ(Discover(slurm)->source, "slurm");
  EXPECT_EQ(Discover(slurm)->rank, 2);
  auto both = slurm;
  both["RANK"] = "1";
  both["WORLD_SIZE"] = "3";
  EXPECT_EQ(Discover(both)->source, "torchrun");
  EXPECT_EQ(Discover(both)->world_size, 3);
}

TEST(DiscoverRankTest, SlurmAloneSufficesToMeet) {
  const auto info = Discover({{"SLURM_PROCID", "3"},
                              {"SLURM_NTASKS", "4"},
                              {"SLURM_JOB_ID", "123456"},
                              {"SLURM_RESTART_COUNT", "2"},
                              {"SLURM_STEP_NODELIST", "gpu[07-09,12],x"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->master_address, "gpu07");
  EXPECT_EQ(info->master_port, 20000 + 123456 % 20000);
  EXPECT_EQ(info->attempt, 2);
}

TEST(DiscoverRankTest, TorchrunsAgentServesTheStore) {
  const auto info = Discover({{"RANK", "0"},
                              {"WORLD_SIZE", "2"},
                              {"MASTER_PORT", "7"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                              {"TORCHELASTIC_RESTART_COUNT", "1"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->agent_store);
  EXPECT_EQ(info->attempt, 1);
}

TEST(DiscoverRankTest, RefusesAnIncompleteOrImpossibleEnvironment) {
  EXPECT_FALSE(Discover({{"RANK", "0"}}).ok());
  EXPECT_FALSE(Discover({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(
      Discover({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}).ok());
  EXPECT_FALSE(Discover({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).ok());
}

TEST(ProcessGroupTest, SumsAndBroadcastsOverGloo) {
  const int port = FreePort();
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.emplace_back([r, port] {
      RankInfo info{.rank = r, .world_size = 2, .master_port = port};
      auto group = CreateProcessGroup(info, {.run_key = "test"});
      ASSERT_TRUE(group.ok()) << group.status();
      torch::Tensor t = torch::full({3}, r + 1.0f);
      ASSERT_TRUE((*group)->AllReduceSum(t).ok());
      EXPECT_EQ(t[2].item<float>(), 3.0f);
      EXPECT_EQ(*(*group)->Broadcast(r == 0 ? "from zero" : "ignored"),
                "from zero");
      EXPECT_EQ(*(*group)->Broadcast(""), "");
      EXPECT_TRUE((*group)->Barrier().ok());
    });
  }
  for (auto& t : ranks) t.join();
}

TEST(ProcessGroupTest, AMissingPeerIsAnErrorWithinTheTimeout) {
  RankInfo info{.rank = 0, .world_size = 2, .master_port = FreePort()};
  const auto group = CreateProcessGroup(
      info, {.run_key = "test",
             .rendezvous_timeout = absl::Milliseconds(300),
             .timeout = absl::Milliseconds(300)});
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(group.status().message()),
              testing::HasSubstr("rank 0 of 2"));
}

TEST(ProcessGroupTest, APeerThatLeavesIsAnErrorForTheOthers) {
  const int port = FreePort();
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.emplace_back([r, port] {
      RankInfo info{.rank = r, .world_size = 2, .master_port = port};
      auto group = CreateProcessGroup(info, {.run_key = "test"});
      ASSERT_TRUE(group.ok()) << group.status();
      if (r == 1) return;
      EXPECT_EQ((*group)->Barrier().code(), absl::StatusCode::kUnavailable);
    });
  }
  for (auto& t : ranks) t.join();
}

}  // namespace
}  // namespace dice
