#include <signal.h>

#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

absl::Status Fail() { return absl::NotFoundError("no file"); }
absl::StatusOr<int> Value(bool ok) {
  if (ok) return 7;
  return absl::InternalError("broken");
}
absl::Status Outer() {
  DICE_RETURN_IF_ERROR(Fail()) << "loading " << 3;
  return absl::OkStatus();
}
absl::StatusOr<int> Twice(bool ok) {
  DICE_ASSIGN_OR_RETURN(const int v, Value(ok), "first");
  return 2 * v;
}

TEST(StatusMacrosTest, AddContextAndKeepCode) {
  EXPECT_EQ(Outer(), absl::NotFoundError("loading 3: no file"));
  EXPECT_EQ(*Twice(true), 14);
  EXPECT_EQ(Twice(false).status(), absl::InternalError("first: broken"));
}

TEST(BoundedQueueTest, RefusesWhenFullAndDrainsAfterClose) {
  BoundedQueue<int> q(2);
  EXPECT_TRUE(q.TryPush(1));
  EXPECT_TRUE(q.TryPush(2));
  EXPECT_FALSE(q.TryPush(3));
  q.Close();
  EXPECT_FALSE(q.Push(4));
  EXPECT_EQ(q.Pop(), 1);
  EXPECT_EQ(q.Pop(), 2);
  EXPECT_EQ(q.Pop(), std::nullopt);
}

TEST(BoundedQueueTest, PopTimesOutOnTheInjectedClock) {
  FakeClock clock;
  BoundedQueue<int> q(1);
  const absl::Time deadline = clock.Now() + absl::Seconds(5);
  std::thread t(
      [&, deadline] { EXPECT_EQ(q.Pop(deadline, clock), std::nullopt); });
  clock.Advance(absl::Seconds(6));
  t.join();
}

TEST(RngTest, StreamsAreReplayableAndDistinct) {
  EXPECT_EQ(StreamKey(1).Derive({2, 3}).value(),
            StreamKey(1).Derive({2}).Derive({3}).value());
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 100; ++a) {
    for (uint64_t b = 0; b < 100; ++b) {
      seen.insert(StreamKey(1).Derive({a, b}).value());
    }
  }
  EXPECT_EQ(seen.size(), 10000u);
  Rng x(5), y(5);
  EXPECT_EQ(x(), y());
}

TEST(RngTest, CounterUniformHasTheRightMoments) {
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double u = StreamKey(9).Uniform(i, 1);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
}

TEST(DigestTest, MatchesPublishedVectors) {
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(Sha256HexOf({"ab", "c"}), Sha256HexOf({"a", "bc"}));
}

TEST(FileTest, WritesAtomicallyAndNamesThePathOnError) {
  const std::string dir = testing::TempDir() + "/file_test";
  ASSERT_TRUE(MakeDirs(dir).ok());
  const std::string path = JoinPath(dir, "a");
  ASSERT_TRUE(WriteFileAtomic(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "two").ok());
  EXPECT_EQ(*ReadFile(path), "two");
  const absl::Status s = ReadFile(JoinPath(dir, "absent")).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr("absent"));
}

TEST(ProcessTest, ReportsExitCodeSignalAndDeadline) {
  auto p = Process::Spawn({.argv = {"sh", "-c", "exit 3"}});
  ASSERT_TRUE(p.ok());
  EXPECT_EQ((*p)->Wait()->code, 3);
  auto q = Process::Spawn({.argv = {"sleep", "100"}});
  ASSERT_TRUE(q.ok());
  EXPECT_TRUE((*q)->Running());
  EXPECT_EQ((*q)->Wait(absl::Now() + absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  (*q)->Kill(SIGKILL);
  EXPECT_EQ((*q)->Wait()->signal, SIGKILL);
  EXPECT_EQ(Process::Spawn({.argv = {"/no/such/program"}}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dice
