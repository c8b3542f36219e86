#include "common/rpc/backoff.h"

#include <unistd.h>

#include <thread>

#include "common/base/file.h"
#include "common/rpc/ready_file.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

TEST(BackoffTest, DoublesUpToItsLimitAndStartsAgain) {
  Backoff b({.first = absl::Milliseconds(100),
             .longest = absl::Milliseconds(400),
             .seed = 1});
  for (int ms : {100, 200, 400, 400}) {
    const absl::Duration d = b.Next();
    EXPECT_GE(d, absl::Milliseconds(ms) / 2);
    EXPECT_LE(d, absl::Milliseconds(ms));
  }
  b.Reset();
  EXPECT_LE(b.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, TwoClientsDoNotComeBackInStep) {
  Backoff a({.seed = 1}), b({.seed = 2});
  EXPECT_NE(a.Next(), b.Next());
}

// Moves on by itself, so that a retry loop in one thread ends.
class SkippingClock : public FakeClock {
 public:
  void Await(CondVar& cv, Mutex& mu, absl::Time deadline) override {
    Advance(deadline - Now());
  }
};

TEST(RetryTest, TriesAgainWhileThePeerIsAway) {
  SkippingClock clock;
  Backoff backoff({});
  int calls = 0;
  EXPECT_TRUE(Retry(clock, backoff, absl::InfiniteFuture(), {}, [&] {
                return ++calls < 4 ? absl::UnavailableError("away")
                                   : absl::OkStatus();
              }).ok());
  EXPECT_EQ(calls, 4);
}

TEST(RetryTest, DoesNotRepeatWhatCannotSucceed) {
  SkippingClock clock;
  Backoff backoff({});
  int calls = 0;
  EXPECT_EQ(Retry(clock, backoff, absl::InfiniteFuture(), {},
                  [&] {
                    ++calls;
                    return absl::FailedPreconditionError("version");
                  })
                .code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(calls, 1);
}

TEST(RetryTest, GivesUpAtItsDeadlineWithTheLastError) {
  SkippingClock clock;
  const absl::Time start = clock.Now();
  Backoff backoff({});
  EXPECT_EQ(Retry(clock, backoff, start + absl::Seconds(20), {},
                  [] { return absl::UnavailableError("away"); }),
            absl::UnavailableError("away"));
  EXPECT_LE(clock.Now(), start + absl::Seconds(20));
  EXPECT_GT(clock.Now(), start + absl::Seconds(10));
}

TEST(RetryTest, EndsWhenStoppedWhileItWaits) {
  FakeClock clock;  // stands still: only the stop can end the wait
  Backoff backoff({});
  std::stop_source source;
  absl::Status status;
  std::thread t([&] {
    status = Retry(clock, backoff, absl::InfiniteFuture(), source.get_token(),
                   [] { return absl::UnavailableError("away"); });
  });
  source.request_stop();
  t.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(ReadyFileTest, RoundTrips) {
  const std::string path = ::testing::TempDir() + "/ready_file_test";
  ASSERT_TRUE(
      WriteReadyFile(path, {.address = "h:1", .metrics_address = "h:2"}).ok());
  const auto info = ReadReadyFile(path);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->address, "h:1");
  EXPECT_EQ(info->metrics_address, "h:2");
  EXPECT_EQ(info->pid, getpid());
  ASSERT_TRUE(WriteFileAtomic(path, "hello\n").ok());
  EXPECT_EQ(ReadReadyFile(path).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dice
