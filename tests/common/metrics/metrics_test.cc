#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/metrics/event_file.h"
#include "common/metrics/health.h"
#include "common/metrics/http_server.h"
#include "common/metrics/registry.h"
#include "common/metrics/run_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string FreshDir() {
  const auto dir =
      std::filesystem::path(::testing::TempDir()) /
      absl::StrCat(
          "metrics_",
          ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(dir);
  return dir;
}

TEST(MetricRegistryTest, EverySeriesExistsAtZero) {
  MetricRegistry registry;
  auto outcomes = registry.AddCounters("dice_test_results_total", "By outcome",
                                       "outcome", {"correct", "other"});
  registry.AddGauge("dice_test_depth", "Depth").Set(4);
  registry.AddHistogram("dice_test_wait_seconds", "Wait", {0.1, 1})
      .Observe(0.5);
  outcomes["correct"].Increment(2);
  EXPECT_THAT(registry.Text(),
              AllOf(HasSubstr("# HELP dice_test_results_total By outcome"),
                    HasSubstr("dice_test_results_total{outcome=\"correct\"} 2"),
                    HasSubstr("dice_test_results_total{outcome=\"other\"} 0"),
                    HasSubstr("dice_test_depth 4"),
                    HasSubstr("dice_test_wait_seconds_bucket{le=\"1\"} 1")));
  EXPECT_THAT(registry.names(),
              ElementsAre("dice_test_results_total", "dice_test_depth",
                          "dice_test_wait_seconds"));
}

TEST(MetricRegistryDeathTest, RefusesNamesAgainstTheRules) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  MetricRegistry registry;
  EXPECT_DEATH(registry.AddGauge("depth", ""), "depth");
  EXPECT_DEATH(registry.AddCounter("dice_test_results", ""), "results");
  registry.AddGauge("dice_twice", "");
  EXPECT_DEATH(registry.AddGauge("dice_twice", ""), "twice");
}

TEST(HealthTest, AClockThatStopsIsStaleUnlessPaused) {
  FakeClock clock;
  Health health(clock);
  auto& loop = health.AddProgressClock("learner step", absl::Seconds(10));
  clock.Advance(absl::Seconds(60));
  EXPECT_EQ(health.Stale(), "");
  loop.Touch();
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(health.Stale(), "");
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(health.Stale(), "learner step: no progress for 11s\n");
  loop.Pause();
  EXPECT_EQ(health.Stale(), "");
}

// The whole answer to GET `path`.
std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    out.append(buffer, n);
  }
  close(fd);
  return out;
}

TEST(MetricsServerTest, ServesMetricsHealthAndReadiness) {
  FakeClock clock;
  MetricRegistry registry;
  registry.AddGauge("dice_test_depth", "Depth").Set(4);
  Health health(clock);
  auto& loop = health.AddProgressClock("loop", absl::Seconds(10));
  const auto server = MetricsServer::Start(registry, health, "127.0.0.1", 0);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("\ndice_test_depth 4\n"));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 503"));
  health.SetReady(true);
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 200"));
  loop.Touch();
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  clock.Advance(absl::Seconds(11));
  EXPECT_THAT(Get(port, "/healthz"), AllOf(StartsWith("HTTP/1.1 503"),
                                           HasSubstr("loop: no progress")));
  EXPECT_THAT(Get(port, "/other"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(
      MetricsServer::Start(registry, health, "127.0.0.1", port).status().code(),
      absl::StatusCode::kUnavailable);
}

TEST(MetricsServerTest, StopsRightAfterItsStart) {
  MetricRegistry registry;
  Health health;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(MetricsServer::Start(registry, health, "127.0.0.1", 0).ok());
  }
}

TEST(MetricsRowTest, KeepsOrderAndWritesNullForWhatIsNotFinite) {
  MetricsRow row;
  row.Set("stage", "sft").Set("step", 3).Set("kl", 0.5).Set("best", NAN);
  EXPECT_EQ(row.ToJson(), R"({"stage":"sft","step":3,"kl":0.5,"best":null})");
}

TEST(RunLogTest, AResumedRunDoesNotRepeatRows) {
  const std::string dir = FreshDir();
  auto log = RunLog::Create(dir);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*log)->Write("sft", i, MetricsRow().Set("step", i)).ok());
  }
  log = RunLog::Create(dir, /*keep_rows=*/2);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE((*log)->Write("sft", 2, MetricsRow().Set("step", 22)).ok());
  EXPECT_EQ((*log)->rows(), 3);
  EXPECT_EQ(*ReadFile(dir + "/metrics.jsonl"),
            "{\"step\":0}\n{\"step\":1}\n{\"step\":22}\n");
  EXPECT_EQ(RunLog::Create(dir, 9).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(EventFileTest, ChecksumMatchesThePublishedVector) {
  // RFC 3720 B.4: 32 bytes of zeros have CRC-32C 0x8a9136aa.
  const uint32_t crc = 0x8a9136aa;
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\0')),
            ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

TEST(EventFileTest, TensorBoardReadsWhatWasWritten) {
  const std::string dir = FreshDir();
  {
    const auto log = RunLog::Create(dir);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int step : {1, 2, 300}) {
      ASSERT_TRUE((*log)
                      ->Write("infill", step,
                              MetricsRow()
                                  .Set("reward_mean", step * 0.25)
                                  .Set("stage", "infill")
                                  .Set("kl", NAN))
                      .ok());
    }
  }
  constexpr char kReader[] = R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1]); a.Reload()
print(a.Tags()["scalars"], [(e.step, e.value) for e in a.Scalars("infill/reward_mean")])
)";
  const char* python = std::getenv("DICE_PYTHON");
  ASSERT_NE(python, nullptr);
  const std::string out = dir + "/out.txt";
  auto process =
      Process::Spawn({.argv = {python, "-c", kReader, dir + "/tensorboard"},
                      .env = {{"PYTHONWARNINGS", "ignore"}},
                      .stdout_path = out,
                      .stderr_path = dir + "/err.txt"});
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE((*process)->Wait()->ok()) << *ReadFile(dir + "/err.txt");
  EXPECT_EQ(*ReadFile(out),
            "['infill/reward_mean'] [(1, 0.25), (2, 0.5), (300, 75.0)]\n");
}

}  // namespace
}  // namespace dice
