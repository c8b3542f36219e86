#include "learner/policy_board.h"

#include <thread>

#include "common/base/digest.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

TEST(PolicyBoardTest, HoldsTheNewestAndKnowsAll) {
  FakeClock clock;
  PolicyBoard board("run", 5, clock, /*keep=*/2);
  EXPECT_EQ(board.version(), -1);
  const WeightsIdentity a = board.Publish(0, "a");
  EXPECT_EQ(a.digest(), Sha256Hex("a"));
  EXPECT_EQ(a.incarnation(), 5);
  board.Publish(1, "b");
  board.Publish(2, "c");
  EXPECT_EQ(board.version(), 2);
  EXPECT_EQ(board.Find(a), nullptr);
  EXPECT_TRUE(board.Knows(a));
  EXPECT_EQ(board.AwaitNewer(1, clock.Now() + absl::Seconds(1))->safetensors,
            "c");
  EXPECT_EQ(board.AwaitNewer(2, clock.Now()), nullptr);
}

TEST(PolicyBoardTest, AnotherRunsVersionOfTheSameNumberIsUnknown) {
  FakeClock clock;
  PolicyBoard board("run", 5, clock);
  WeightsIdentity id = board.Publish(3, "a");
  EXPECT_TRUE(board.Knows(id));
  WeightsIdentity other = id;
  other.set_incarnation(4);
  EXPECT_FALSE(board.Knows(other));
  other = id;
  other.set_digest(Sha256Hex("b"));
  EXPECT_FALSE(board.Knows(other));
  EXPECT_EQ(board.Find(other), nullptr);
  other = id;
  other.set_run_id("x");
  EXPECT_FALSE(board.Knows(other));
}

TEST(PolicyBoardTest, WakesWatchers) {
  FakeClock clock;
  PolicyBoard board("run", 5, clock);
  std::thread watcher([&] {
    EXPECT_EQ(board.AwaitNewer(-1, absl::InfiniteFuture())->identity.version(),
              9);
    EXPECT_EQ(board.AwaitNewer(9, absl::InfiniteFuture()), nullptr);
  });
  board.Publish(9, "w");
  board.Close();
  watcher.join();
}

}  // namespace
}  // namespace dice
