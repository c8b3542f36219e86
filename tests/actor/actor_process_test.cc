// dice-actor as a real process between a scripted learner and a scripted pool.
#include <signal.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/actor/fakes.h"
#include "tests/actor/tiny_policy.h"

namespace dice {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kSamples = 6;

Lease MakeLease(int ordinal, ResponseMode mode = INFILL_FORCED) {
  Lease lease;
  lease.set_lease_id(absl::StrCat("lease-", ordinal));
  lease.set_attempt(1);
  lease.set_purpose(TRAIN);
  lease.set_mode(mode);
  lease.set_num_samples(kSamples);
  lease.set_run_seed(7);
  lease.set_task_ordinal(ordinal);
  lease.set_min_version(1);
  lease.set_deadline_s(1.5);
  lease.mutable_profile()->set_seeds(2);
  Task& task = *lease.mutable_task();
  task.set_id(absl::StrCat("t/", ordinal));
  task.set_reference_source(absl::StrCat("reference = ", ordinal));
  task.set_prompt(absl::StrCat("say ", ordinal));
  task.set_candidate_template("source = {{literal}}");
  task.mutable_scaffold()->set_prefix("int x");
  task.mutable_scaffold()->set_suffix(";}");
  SamplingConfig& sampling = *lease.mutable_sampling();
  sampling.set_strategy(DYNAMIC);
  sampling.set_temperature(1);
  sampling.set_confidence_threshold(0.9);
  sampling.set_steps_per_block(4);
  sampling.set_max_response_tokens(12);
  return lease;
}

class ActorProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(
        ::testing::TempDir(), "/actor_",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    WriteTinyModel(dir_);
    learner_.Publish(1, TinyWeights(1));
  }

  std::unique_ptr<ServerRunner> Serve(grpc::Service& service, int port = 0) {
    auto server = ServerRunner::Start({.port = port}, {&service});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  // A port that nobody listens on now.
  int FreePort() {
    FakePool pool(nullptr);
    return Serve(pool)->port();
  }
  void StartActor(int learner_port, int pool_port) {
    auto process = Process::Spawn(
        {.argv = {absl::StrCat(std::getenv("DICE_BUILD_DIR"),
                               "/actor/dice-actor"),
                  "--name", "actor/0", "--learner",
                  absl::StrCat("127.0.0.1:", learner_port), "--evaluator",
                  absl::StrCat("127.0.0.1:", pool_port), "--tokenizer", dir_,
                  "--model-config", dir_ + "/config.json", "--batch", "4",
                  "--drain-s", "30"},
         .env = {{"OMP_NUM_THREADS", "1"}}});
    ASSERT_TRUE(process.ok()) << process.status();
    actor_ = *std::move(process);
  }
  // "exit code 0" and so on; waits up to a minute.
  std::string Exit() {
    const auto status = actor_->Wait(Clock::Real().Now() + absl::Seconds(60));
    return status.ok() ? status->ToString() : status.status().ToString();
  }
  std::string FinishAndExit() {
    learner_.Finish();
    return Exit();
  }

  std::string dir_;
  FakeLearner learner_;
  std::unique_ptr<Process> actor_;
};

TEST_F(ActorProcessTest, TurnsLeasesIntoJudgedGroups) {
  std::vector<std::string> sources;
  FakePool pool([&](int, const EvaluateRequest& request) {
    sources.push_back(request.candidate_source());
    EXPECT_EQ(request.profile().seeds(), 2);
    return FakePool::Correct();
  });
  const auto learner = Serve(learner_), front = Serve(pool);
  for (int i = 0; i < 3; ++i) learner_.Offer(MakeLease(i));
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitGroups(3));
  EXPECT_EQ(FinishAndExit(), "exit code 0");
  EXPECT_EQ(pool.tasks(), 3) << "a task is sent once";
  EXPECT_THAT(sources, SizeIs(3 * kSamples));
  EXPECT_THAT(sources, Each(HasSubstr("int x")));
  bool left_early = false;
  const std::vector<PushedGroup> groups = learner_.groups();
  for (const PushedGroup& group : groups) {
    EXPECT_EQ(group.header.actor(), "actor/0");
    EXPECT_EQ(group.header.attempt(), 1);
    EXPECT_EQ(group.header.num_rollouts(), kSamples);
    ASSERT_THAT(group.rollouts, SizeIs(kSamples));
    double last_sampled = 0, first_sent = 1e18;
    for (int i = 0; i < kSamples; ++i) {
      const Rollout& r = group.rollouts[i];
      EXPECT_EQ(r.sample_index(), i);
      EXPECT_EQ(r.lease_id(), group.header.lease_id());
      EXPECT_EQ(std::string(r.prompt_ids().begin(), r.prompt_ids().end()),
                absl::StrCat("say ", r.task_id().substr(2)));
      EXPECT_EQ(r.verdict().outcome(), CORRECT);
      EXPECT_EQ(r.infra_error(), "");
      EXPECT_EQ(r.response().steps(4), -1) << "the prefix is forced";
      EXPECT_GT(r.response().steps(5), 0);
      EXPECT_EQ(r.response().identity().version(), 1);
      EXPECT_LE(r.sampled_at_s(), r.evaluate_sent_at_s());
      EXPECT_LE(r.evaluate_sent_at_s(), r.verdict_at_s());
      last_sampled = std::max(last_sampled, r.sampled_at_s());
      first_sent = std::min(first_sent, r.evaluate_sent_at_s());
    }
    left_early |= first_sent < last_sampled;
  }
  EXPECT_TRUE(left_early) << "the first response waits for nobody";
}

TEST_F(ActorProcessTest, StartOrderDoesNotMatter) {
  FakePool pool(
      [](int, const EvaluateRequest&) { return FakePool::Correct(); });
  const int learner_port = FreePort(), pool_port = FreePort();
  StartActor(learner_port, pool_port);
  learner_.Offer(MakeLease(0));
  const auto learner = Serve(learner_, learner_port);
  ASSERT_TRUE(learner_.AwaitFetches(1));
  const auto front = Serve(pool, pool_port);
  EXPECT_TRUE(learner_.AwaitGroups(1));
  EXPECT_EQ(FinishAndExit(), "exit code 0");
}

TEST_F(ActorProcessTest, SubmitsAgainWhatABrokenStreamLeftUndecided) {
  FakePool pool(
      [](int, const EvaluateRequest&) { return FakePool::Correct(); });
  pool.BreakStreamAfter(kSamples + 2);
  const auto learner = Serve(learner_), front = Serve(pool);
  for (int i = 0; i < 4; ++i) learner_.Offer(MakeLease(i));
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitGroups(4));
  EXPECT_EQ(FinishAndExit(), "exit code 0");
  const std::vector<PushedGroup> groups = learner_.groups();
  for (const PushedGroup& group : groups) {
    for (const Rollout& r : group.rollouts) {
      EXPECT_EQ(r.verdict().outcome(), CORRECT);
    }
  }
}

TEST_F(ActorProcessTest, InfraErrorsAreRetriedThenLostAndNeverAVerdict) {
  std::atomic<int> refused = 0;
  std::string doomed;
  FakePool pool([&](int n, const EvaluateRequest& request) {
    if (n < 2) {
      ++refused;
      return FakePool::Infra("the queue is full", /*retryable=*/true);
    }
    if (doomed.empty()) doomed = request.candidate_source();
    return request.candidate_source() == doomed
               ? FakePool::Infra("no worker fits", /*retryable=*/false)
               : FakePool::Correct();
  });
  const auto learner = Serve(learner_), front = Serve(pool);
  learner_.Offer(MakeLease(0));
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitGroups(1));
  EXPECT_EQ(refused, 2);
  int lost = 0;
  const PushedGroup group = learner_.groups()[0];
  for (const Rollout& r : group.rollouts) {
    EXPECT_NE(r.has_verdict(), !r.infra_error().empty());
    if (!r.has_verdict()) {
      ++lost;
      EXPECT_EQ(r.infra_error(), "no worker fits");
    }
  }
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(FinishAndExit(), "exit code 0");
}

TEST_F(ActorProcessTest, AResponseWithoutACandidateIsJudgedOnTheSpot) {
  FakePool pool(
      [](int, const EvaluateRequest&) { return FakePool::Correct(); });
  const auto learner = Serve(learner_), front = Serve(pool);
  Lease lease = MakeLease(0, END_TO_END);
  lease.mutable_task()->clear_candidate_template();  // wants fenced code
  learner_.Offer(lease);
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitGroups(1));
  const PushedGroup group = learner_.groups()[0];
  for (const Rollout& r : group.rollouts) {
    EXPECT_EQ(r.verdict().outcome(), FORMAT_ERROR);
    EXPECT_EQ(r.verdict().blame(), BLAME_CANDIDATE);
    EXPECT_NE(r.verdict().message(), "");
  }
  EXPECT_EQ(pool.evaluations(), 0);
  EXPECT_EQ(FinishAndExit(), "exit code 0");
}

TEST_F(ActorProcessTest, ALeaseWaitsForItsVersionAndBadWeightsAreFetchedAgain) {
  FakePool pool(
      [](int, const EvaluateRequest&) { return FakePool::Correct(); });
  const auto learner = Serve(learner_), front = Serve(pool);
  learner_.CorruptNextFetch();
  Lease newer = MakeLease(1);
  newer.set_min_version(2);
  learner_.Offer(newer);
  learner_.Offer(MakeLease(0));
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitFetches(2)) << "the first one was corrupt";
  ASSERT_TRUE(learner_.AwaitGroups(1));
  EXPECT_EQ(learner_.groups()[0].header.lease_id(), "lease-0");
  learner_.Publish(2, TinyWeights(2));
  ASSERT_TRUE(learner_.AwaitGroups(2));
  EXPECT_EQ(learner_.groups()[1].rollouts[0].response().identity().version(),
            2);
  EXPECT_EQ(FinishAndExit(), "exit code 0");
}

TEST_F(ActorProcessTest, ALostLeaseIsGivenUpAndTheActorGoesOn) {
  FakePool pool(
      [](int,
         const EvaluateRequest& request) -> std::optional<EvaluateResponse> {
        if (request.profile().seeds() == 9) return std::nullopt;
        return FakePool::Correct();
      });
  const auto learner = Serve(learner_), front = Serve(pool);
  Lease silent = MakeLease(0);
  silent.mutable_profile()->set_seeds(9);
  learner_.Offer(silent);
  learner_.Lose("lease-0");
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitLoss())
      << "it was renewed while the pool was there";
  learner_.Offer(MakeLease(1));
  ASSERT_TRUE(learner_.AwaitGroups(1));
  EXPECT_EQ(learner_.groups()[0].header.lease_id(), "lease-1");
  EXPECT_EQ(FinishAndExit(), "exit code 0");
}

TEST_F(ActorProcessTest, SigtermDrainsWhatIsInFlight) {
  Mutex mu;
  CondVar changed;
  bool open = false;
  FakePool pool([&](int, const EvaluateRequest&) {
    AwaitTrue(mu, changed, [&] { return open; });
    return FakePool::Correct();
  });
  const auto learner = Serve(learner_), front = Serve(pool);
  learner_.Offer(MakeLease(0));
  StartActor(learner->port(), front->port());
  ASSERT_TRUE(learner_.AwaitFetches(1));
  // The first evaluation is at the pool: the lease is certainly held.
  ASSERT_TRUE(pool.AwaitTask());
  actor_->Kill(SIGTERM);
  {
    MutexLock lock(mu);
    open = true;
  }
  EXPECT_EQ(Exit(), "exit code 0");
  EXPECT_THAT(learner_.groups(), SizeIs(1));
}

TEST_F(ActorProcessTest, APolicyThatDoesNotFitTheModelEndsTheProcess) {
  FakePool pool(
      [](int, const EvaluateRequest&) { return FakePool::Correct(); });
  const auto learner = Serve(learner_), front = Serve(pool);
  learner_.Publish(1, "these are no safetensors");
  StartActor(learner->port(), front->port());
  EXPECT_EQ(Exit(), "exit code 2");
}

}  // namespace
}  // namespace dice
