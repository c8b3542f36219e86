#include "cli/supervisor.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Children are shell scripts, so everything here is real but the work.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    std::string pattern = ::testing::TempDir() + "/supervisor_XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~SupervisorTest() override { std::filesystem::remove_all(dir_); }

  // One child that runs `script`, which sees its attempt as $ATTEMPT.
  GroupSpec Group(
      const std::string& name, const std::string& script,
      GroupSpec::OnSuccess on_success = GroupSpec::OnSuccess::kRestart) {
    return {.name = name,
            .make =
                [=, this](int attempt) {
                  return std::vector{Child(name, script, attempt)};
                },
            .on_success = on_success,
            .max_failures = 3,
            .gang_grace = absl::Milliseconds(200)};
  }
  ChildSpec Child(const std::string& name, const std::string& script,
                  int attempt) {
    return {.name = name,
            .argv = {"sh", "-c", script},
            .env = {{"ATTEMPT", absl::StrCat(attempt)}, {"DIR", dir_}},
            .log_path = absl::StrCat(dir_, "/", name, ".log")};
  }
  // Steps until it returns something else than "goes on".
  absl::StatusOr<bool> RunToEnd(Supervisor& s) {
    return StepUntil(s, [] { return false; });
  }
  absl::StatusOr<bool> StepUntil(Supervisor& s,
                                 const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      absl::StatusOr<bool> step = s.Step();
      if (!step.ok() || *step || done()) return step;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return absl::DeadlineExceededError("the test waits for ever");
  }
  std::string Read(const std::string& file) {
    return ReadFile(dir_ + "/" + file).value_or("");
  }

  std::string dir_;
  const Supervisor::Options fast_ = {.first_backoff = absl::Milliseconds(5),
                                     .longest_backoff = absl::Milliseconds(20)};
};

TEST_F(SupervisorTest, TheRunEndsWhenItsLearnerSucceeds) {
  Supervisor s(fast_);
  s.Add(Group("pool", "sleep 1000"));
  s.Add(Group("learner", "exit 0", GroupSpec::OnSuccess::kFinishRun));
  const auto end = RunToEnd(s);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_TRUE(*end);
}

TEST_F(SupervisorTest, AChildThatDiesIsStartedAgain) {
  Supervisor s(fast_);
  s.Add(Group("w",
              "echo $ATTEMPT >> $DIR/lives; test $ATTEMPT = 2 && sleep "
              "1000; kill -9 $$"));
  ASSERT_TRUE(StepUntil(s, [&] { return Read("lives") == "0\n1\n2\n"; }).ok());
  EXPECT_EQ(s.restarts(), 2);
}

TEST_F(SupervisorTest, GivesUpWithTheLogOfWhatKeepsFailing) {
  Supervisor s(fast_);
  s.Add(Group("actor-3", "echo trying; echo no such weights >&2; exit 7"));
  const auto end = RunToEnd(s);
  EXPECT_EQ(end.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.status().message()),
              AllOf(HasSubstr("actor-3 failed 3 times in a row"),
                    HasSubstr("exit code 7"), HasSubstr("actor-3.log"),
                    HasSubstr("no such weights")));
}

TEST_F(SupervisorTest, AWrongConfigIsNotTriedAgain) {
  Supervisor s(fast_);
  s.Add(Group("learner", "echo $ATTEMPT >> $DIR/lives; exit 2"));
  const auto end = RunToEnd(s);
  EXPECT_EQ(end.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Read("lives"), "0\n");
}

TEST_F(SupervisorTest, ServicesThatEndByThemselvesComeBackAndActorsMayRetire) {
  Supervisor s(fast_);
  s.Add(Group("pool",
              "echo $ATTEMPT >> $DIR/pool; test $ATTEMPT = 0 || sleep "
              "1000"));
  s.Add(Group("actor", "echo $ATTEMPT >> $DIR/actor",
              GroupSpec::OnSuccess::kRetire));
  ASSERT_TRUE(StepUntil(s, [&] { return Read("pool") == "0\n1\n"; }).ok());
  EXPECT_EQ(Read("actor"), "0\n");
}

TEST_F(SupervisorTest, RanksLiveAndDieTogether) {
  Supervisor s(fast_);
  s.Add({.name = "learner",
         .make =
             [&](int attempt) {
               return std::vector{
                   Child("rank-0",
                         "trap '' TERM; echo $ATTEMPT >> $DIR/zero; while :; "
                         "do sleep 1; done",
                         attempt),
                   Child("rank-1",
                         "echo $ATTEMPT >> $DIR/one; test $ATTEMPT = 1 && "
                         "sleep 1000; exit 1",
                         attempt)};
             },
         .max_failures = 3,
         .gang_grace = absl::Milliseconds(50)});
  ASSERT_TRUE(StepUntil(s, [&] {
                return Read("one") == "0\n1\n" && Read("zero") == "0\n1\n";
              }).ok());
  EXPECT_EQ(s.Running().size(), 2);
}

TEST_F(SupervisorTest, StopLetsChildrenEndThenKillsThem) {
  Supervisor s(fast_);
  s.Add(Group("polite",
              "trap 'echo bye > $DIR/bye; exit 0' TERM; echo up > "
              "$DIR/p; while :; do sleep 0.01; done"));
  s.Add(Group("deaf",
              "trap '' TERM; echo up > $DIR/d; while :; do sleep 0.01; "
              "done"));
  ASSERT_TRUE(StepUntil(s, [&] {
                return !Read("p").empty() && !Read("d").empty();
              }).ok());
  const int pid = s.Running().at("deaf");
  s.Stop({"polite", "deaf"}, absl::Milliseconds(500));
  EXPECT_EQ(Read("bye"), "bye\n");
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_TRUE(s.Running().empty());
}

TEST_F(SupervisorTest, ReadinessIsAFileThatANewLifeMustWriteAgain) {
  Supervisor s(fast_);
  s.Add({.name = "pool", .make = [&](int attempt) {
           ChildSpec child =
               Child("pool", "echo ok > $DIR/ready; sleep 1000", attempt);
           child.ready_file = dir_ + "/ready";
           return std::vector{child};
         }});
  ASSERT_TRUE(WriteFileAtomic(dir_ + "/ready", "stale").ok());
  ASSERT_TRUE(s.Step().ok());
  EXPECT_NE(Read("ready"), "stale");
  EXPECT_TRUE(s.AwaitReady("pool", absl::Now() + absl::Seconds(20), [] {
                 return false;
               }).ok());
  EXPECT_EQ(Read("ready"), "ok\n");
}

TEST_F(SupervisorTest, SaysWhoIsNotReadyInTime) {
  Supervisor s(fast_);
  s.Add({.name = "pool", .make = [&](int attempt) {
           ChildSpec child = Child("pool", "echo hm; sleep 1000", attempt);
           child.ready_file = dir_ + "/ready";
           return std::vector{child};
         }});
  const absl::Status late = s.AwaitReady("pool", absl::Now() + absl::Seconds(1),
                                         [] { return false; });
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr("pool is not ready"));
}

TEST(LastLinesTest, ShowsTheEnd) {
  const std::string path = ::testing::TempDir() + "/last_lines";
  ASSERT_TRUE(WriteFileAtomic(path, "a\nb\nc\n").ok());
  EXPECT_EQ(LastLines(path, 2), "  b\n  c");
  EXPECT_EQ(LastLines("/nonexistent", 2), "  (its log is empty)");
}

}  // namespace
}  // namespace dice::cli
