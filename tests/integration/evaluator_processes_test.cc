// Pool, workers and clients as real processes, with a judge that only takes
// time, while some of them are killed, frozen or restarted.
#include <signal.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/tasks/tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/evaluator_harness.h"

namespace dice {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pair;

class EvaluatorProcessesTest : public ::testing::Test {
 protected:
  // A short lease, so that tests need not wait long for it to expire.
  std::unique_ptr<EvaluatorProcess> Pool(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(),
                 {"--mode", "pool", "--cache", folder_ / "cache.sqlite"});
    const bool has_lease = std::find(flags.begin(), flags.end(),
                                     "--lease-seconds") != flags.end();
    if (!has_lease) flags.insert(flags.end(), {"--lease-seconds", "1.5"});
    return StartEvaluator(folder_, "pool", flags);
  }
  std::unique_ptr<EvaluatorProcess> Worker(const std::string& name, int ms = 20,
                                           int slots = 4) {
    return StartEvaluator(
        folder_, name,
        {"--mode", "worker", "--name", name, "--pool", address_, "--slots",
         absl::StrCat(slots), "--heartbeat-seconds", "0.3",
         "--synthetic-judge-ms", absl::StrCat(ms)});
  }
  void StartPool(const std::vector<std::string>& flags = {}) {
    pool_ = Pool(flags);
    ASSERT_NE(pool_, nullptr);
    address_ = pool_->address;
  }
  static void Submit(TestClient& client, int n, const std::string& prefix) {
    for (int i = 0; i < n; ++i) {
      client.Submit(absl::StrCat("# ", prefix, " ", i, "\n"));
    }
  }
  // All `n` have one answer, and it is the true one.
  static void ExpectAllCorrect(const TestClient& client, size_t n) {
    EXPECT_EQ(client.results().size(), n);
    EXPECT_THAT(client.results(), Each(Pair(testing::_, "CORRECT")));
    EXPECT_EQ(client.answered_twice(), 0);
  }

  TestFolder folder_;
  std::unique_ptr<EvaluatorProcess> pool_;
  std::string address_;
};

TEST_F(EvaluatorProcessesTest, ChaosKilledWorkerLosesNothing) {
  StartPool();
  auto victim = Worker("victim"), other = Worker("other");
  TestClient client(address_);
  Submit(client, 200, "k");
  ASSERT_TRUE(client.AwaitAnswers(30));
  victim->process->Kill(SIGKILL);
  auto replacement = Worker("replacement");
  ASSERT_TRUE(client.AwaitAnswers(200));
  ExpectAllCorrect(client, 200);
  EXPECT_GE(ReadMetric(pool_->metrics,
                       "dice_evaluator_requeues_total{reason=\"worker_lost\"}"),
            1);
  EXPECT_EQ(ReadMetric(pool_->metrics,
                       "dice_evaluator_infra_errors_total{kind=\"lost\"}"),
            0);
}

TEST_F(EvaluatorProcessesTest, ChaosFrozenWorkerLosesItsLeasesAndComesBack) {
  StartPool();
  auto frozen = Worker("frozen"), other = Worker("other");
  TestClient client(address_);
  Submit(client, 200, "k");
  ASSERT_TRUE(client.AwaitAnswers(30));
  kill(-frozen->process->pid(), SIGSTOP);
  ASSERT_TRUE(client.AwaitAnswers(200));
  EXPECT_GE(
      ReadMetric(pool_->metrics,
                 "dice_evaluator_requeues_total{reason=\"lease_expired\"}"),
      1);
  kill(-frozen->process->pid(), SIGCONT);
  // It serves again, and what it still held is not answered a second time.
  other->process->Kill(SIGKILL);
  Submit(client, 50, "after");
  ASSERT_TRUE(client.AwaitAnswers(250));
  ExpectAllCorrect(client, 250);
}

TEST_F(EvaluatorProcessesTest, ChaosRestartedFrontAnswersEverythingOnce) {
  StartPool();
  auto a = Worker("a"), b = Worker("b");
  TestClient client(address_);
  Submit(client, 300, "k");
  ASSERT_TRUE(client.AwaitAnswers(60));
  pool_->process->Kill(SIGKILL);
  (void)pool_->process->Wait();
  const std::vector<std::string> parts = absl::StrSplit(address_, ':');
  pool_ = Pool({"--port", parts.back()});
  ASSERT_NE(pool_, nullptr);
  ASSERT_TRUE(client.AwaitAnswers(300));
  ExpectAllCorrect(client, 300);
  // What was decided before is remembered; what ran was not run again: the two
  // workers together judged each candidate once, give or take what was being
  // reported at that moment.
  TestClient again(address_);
  Submit(again, 300, "k");
  ASSERT_TRUE(again.AwaitAnswers(300));
  EXPECT_GE(again.cached(), 292);
  const double judged = ReadMetric(a->metrics, "dice_worker_verdicts_total") +
                        ReadMetric(b->metrics, "dice_worker_verdicts_total");
  EXPECT_LE(judged, 320);
}

TEST_F(EvaluatorProcessesTest, OverloadIsRefusedAndRetriedNotLost) {
  StartPool({"--queue-limit", "10"});
  TestClient client(address_);
  Submit(client, 100, "k");
  ASSERT_TRUE(Eventually([&] { return client.retries() > 0; }));
  auto worker = Worker("w", /*ms=*/1);
  ASSERT_TRUE(client.AwaitAnswers(100));
  ExpectAllCorrect(client, 100);
}

TEST_F(EvaluatorProcessesTest, FiftyClientsAreServedBesideAFlood) {
  StartPool();
  TestClient flood(address_);
  Submit(flood, 3000, "flood");
  auto worker = Worker("w", /*ms=*/2);
  ASSERT_TRUE(flood.AwaitAnswers(10));
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int c = 0; c < 50; ++c) {
    clients.push_back(std::make_unique<TestClient>(address_));
    Submit(*clients.back(), 4, absl::StrCat("client ", c));
  }
  for (const auto& client : clients) ASSERT_TRUE(client->AwaitAnswers(4));
  // 200 of theirs against 3000: in turn they pass most of the flood.
  EXPECT_LT(flood.answers(), 1500);
}

TEST_F(EvaluatorProcessesTest, SigtermDrainsAWorkerWithoutLoss) {
  StartPool();
  auto leaving = Worker("leaving", /*ms=*/100), other = Worker("other");
  TestClient client(address_);
  Submit(client, 100, "k");
  ASSERT_TRUE(client.AwaitAnswers(10));
  leaving->process->Kill(SIGTERM);
  const auto exit = leaving->process->Wait(absl::Now() + absl::Seconds(30));
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_TRUE(exit->ok()) << exit->ToString();
  ASSERT_TRUE(client.AwaitAnswers(100));
  ExpectAllCorrect(client, 100);
  // Nothing had to be done twice.
  EXPECT_EQ(ReadMetric(pool_->metrics,
                       "dice_evaluator_requeues_total{reason=\"worker_lost\"}"),
            0);
}

TEST_F(EvaluatorProcessesTest, ChaosPoisonIsReportedLostNeverAVerdict) {
  StartPool({"--max-worker-losses", "2"});
  TestClient client(address_);
  client.Submit("# synthetic: crash\n");
  Submit(client, 20, "k");
  std::unique_ptr<EvaluatorProcess> worker;
  for (int life = 0; life < 10 && client.answers() < 21; ++life) {
    worker = Worker(absl::StrCat("w", life), /*ms=*/5, /*slots=*/2);
    ASSERT_NE(worker, nullptr);
    ASSERT_TRUE(Eventually(
        [&] { return client.answers() == 21 || !worker->process->Running(); }));
  }
  auto results = client.results();
  EXPECT_THAT(results[1], HasSubstr("infra: lost with its worker"));
  results.erase(1);
  EXPECT_EQ(results.size(), 20);
  EXPECT_THAT(results, Each(Pair(testing::_, "CORRECT")));
}

TEST_F(EvaluatorProcessesTest, HundredsOfSilentStreamsHoldNoThreads) {
  StartPool();
  auto worker = Worker("w", /*ms=*/1);
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<TestClient>(address_));
    silent.back()->Submit("# same\n");
  }
  for (const auto& client : silent) ASSERT_TRUE(client->AwaitAnswers(1));
  const auto status =
      ReadFile(absl::StrCat("/proc/", pool_->process->pid(), "/status"));
  ASSERT_TRUE(status.ok());
  int threads = 0;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    if (absl::ConsumePrefix(&line, "Threads:\t")) {
      ASSERT_TRUE(absl::SimpleAtoi(line, &threads));
    }
  }
  EXPECT_GT(threads, 0);
  EXPECT_LT(threads, 60);
}

// The whole evaluator as it runs in training: client, pool, worker, judge.
TEST_F(EvaluatorProcessesTest, TheRealJudgeDecidesThroughThePool) {
  const auto tasks = LoadTasks(std::string(getenv("DICE_SOURCE_DIR")) +
                               "/deploy/quickstart/tasks.jsonl.gz");
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const Task& task = tasks->front();
  const auto good = MakeCandidate(task, END_TO_END, task.naive_response());
  ASSERT_TRUE(good.ok()) << good.status();
  StartPool({"--lease-seconds", "30"});
  auto worker = StartEvaluator(folder_, "worker",
                               {"--mode", "worker", "--pool", address_,
                                "--slots", "2", "--device", "emulated"});
  ASSERT_NE(worker, nullptr);
  Profile profile;
  profile.set_seeds(1);
  TestClient client(address_, task, profile);
  client.Submit(*good);
  client.Submit("this is (not Python\n");
  ASSERT_TRUE(client.AwaitAnswers(2, absl::Seconds(150)));
  EXPECT_EQ(client.results()[1], "CORRECT");
  EXPECT_EQ(client.results()[2], "PARSE_ERROR");
}

}  // namespace
}  // namespace dice
