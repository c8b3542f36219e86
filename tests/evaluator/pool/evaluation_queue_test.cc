#include "evaluator/pool/evaluation_queue.h"

#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Verdict Outcome_(Outcome outcome) {
  Verdict v;
  v.set_outcome(outcome);
  return v;
}

WorkerResult Result(const std::string& key, int64_t attempt,
                    Outcome outcome = CORRECT) {
  WorkerResult r;
  r.set_key(key);
  r.set_attempt(attempt);
  r.mutable_verdict()->set_outcome(outcome);
  return r;
}

WorkerResult InfraError(const std::string& key, int64_t attempt) {
  WorkerResult r;
  r.set_key(key);
  r.set_attempt(attempt);
  r.set_infra_error("no disk");
  return r;
}

RegisterWorker Hello(const std::string& name, int slots) {
  RegisterWorker hello;
  hello.set_name(name);
  hello.set_slots(slots);
  return hello;
}

class EvaluationQueueTest : public ::testing::Test {
 protected:
  void Reset(const QueueOptions& options) {
    queue_ = std::make_unique<EvaluationQueue>(options, clock_);
  }
  Admission Submit(ClientId client, const std::string& key,
                   uint64_t request_id = 1) {
    return queue_->Submit(client, request_id,
                          {.key = key, .candidate_source = "src " + key});
  }
  WorkerId AddWorker(const std::string& name, int slots = 1) {
    return queue_->AddWorker(Hello(name, slots), &effects_);
  }
  // "worker:key#attempt", or "-" when nothing is leased.
  std::string Next() {
    const auto a = queue_->LeaseNext();
    return a ? absl::StrCat(a->worker, ":", a->lease.key(), "#",
                            a->lease.attempt(), a->lease.alone() ? "!" : "")
             : "-";
  }
  // Drains the recorded answers: "client/request:OUTCOME".
  std::vector<std::string> Answers() {
    std::vector<std::string> out;
    for (const auto& a : effects_.answers) {
      out.push_back(absl::StrCat(
          a.client, "/", a.response.request_id(), ":",
          a.response.has_verdict()
              ? Outcome_Name(a.response.verdict().outcome())
              : absl::StrCat("infra ", a.response.infra_error().retryable())));
    }
    effects_.answers.clear();
    return out;
  }
  std::vector<std::string> Cancels() {
    std::vector<std::string> out;
    for (const auto& c : effects_.cancels) {
      out.push_back(absl::StrCat(c.worker, ":", c.key));
    }
    effects_.cancels.clear();
    return out;
  }

  FakeClock clock_;
  Effects effects_;
  std::unique_ptr<EvaluationQueue> queue_ =
      std::make_unique<EvaluationQueue>(QueueOptions{}, clock_);
};

TEST_F(EvaluationQueueTest, AnswersTheClientThatAsked) {
  const WorkerId w = AddWorker("w");
  EXPECT_EQ(Submit(7, "a", 42), Admission::kQueued);
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(Next(), absl::StrCat(w, ":a#1"));
  queue_->Complete(w, Result("a", 1, WRONG_RESULT), &effects_);
  EXPECT_EQ(effects_.answers[0].response.verdict().stage_s().queue(), 3);
  EXPECT_THAT(Answers(), ElementsAre("7/42:WRONG_RESULT"));
  EXPECT_THAT(effects_.cacheable, SizeIs(1));
  EXPECT_EQ(queue_->Stats().queued, 0);
  EXPECT_EQ(queue_->Stats().leased, 0);
}

TEST_F(EvaluationQueueTest, NeverLeasesMoreThanTheSlots) {
  AddWorker("w", 2);
  for (const char* k : {"a", "b", "c"}) Submit(1, k);
  EXPECT_EQ(Next(), "1:a#1");
  EXPECT_EQ(Next(), "1:b#1");
  EXPECT_EQ(Next(), "-");
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_EQ(Next(), "1:c#1");
}

TEST_F(EvaluationQueueTest, SpreadsOverTheWorkers) {
  AddWorker("w", 2);
  AddWorker("v", 2);
  for (const char* k : {"a", "b"}) Submit(1, k);
  EXPECT_EQ(Next(), "1:a#1");
  EXPECT_EQ(Next(), "2:b#1");
}

TEST_F(EvaluationQueueTest, TheSameKeyInFlightIsOneEvaluationWithTwoAnswers) {
  AddWorker("w", 2);
  EXPECT_EQ(Submit(1, "a", 10), Admission::kQueued);
  EXPECT_EQ(Submit(1, "a", 11), Admission::kJoined);
  EXPECT_EQ(Next(), "1:a#1");
  EXPECT_EQ(Submit(2, "a", 12), Admission::kJoined);
  EXPECT_EQ(Next(), "-");
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(),
              ElementsAre("1/10:CORRECT", "1/11:CORRECT", "2/12:CORRECT"));
  EXPECT_THAT(effects_.decided, SizeIs(1));
}

TEST_F(EvaluationQueueTest, RefusesBeyondTheLimitsButLetsDuplicatesJoin) {
  Reset({.queue_limit = 3, .client_limit = 2});
  EXPECT_EQ(Submit(1, "a"), Admission::kQueued);
  EXPECT_EQ(Submit(1, "b"), Admission::kQueued);
  EXPECT_EQ(Submit(1, "c"), Admission::kFull);
  EXPECT_EQ(Submit(2, "c"), Admission::kQueued);
  EXPECT_EQ(Submit(2, "d"), Admission::kFull);
  EXPECT_EQ(Submit(2, "a"), Admission::kJoined);
  AddWorker("w");
  Next();  // what is leased does not wait any more
  EXPECT_EQ(Submit(1, "d"), Admission::kQueued);
}

TEST_F(EvaluationQueueTest, ServesClientsInTurn) {
  AddWorker("w", 100);
  for (int i = 0; i < 50; ++i) Submit(1, absl::StrCat("flood", i));
  for (int i = 0; i < 3; ++i) Submit(2, absl::StrCat("two", i));
  Submit(3, "three");
  std::vector<std::string> order;
  for (int i = 0; i < 8; ++i) order.push_back(Next());
  EXPECT_THAT(order,
              ElementsAre("1:flood0#1", "1:two0#1", "1:three#1", "1:flood1#1",
                          "1:two1#1", "1:flood2#1", "1:two2#1", "1:flood3#1"));
}

TEST_F(EvaluationQueueTest, HoldsBackWhatNeedsATask) {
  AddWorker("w", 2);
  queue_->Submit(1, 1, {.key = "a", .task_digest = "t", .task_known = false});
  Submit(1, "b");
  EXPECT_EQ(Next(), "1:b#1");
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(queue_->Stats().queued, 1);
  queue_->TaskArrived("other");
  EXPECT_EQ(Next(), "-");
  queue_->TaskArrived("t");
  EXPECT_EQ(Next(), "1:a#1");
}

TEST_F(EvaluationQueueTest, RequeuesLeaseWhenWorkerDies) {
  AddWorker("w");
  AddWorker("v");
  Submit(1, "a");
  Submit(1, "b");
  Submit(1, "c");
  Next();
  Next();
  queue_->RemoveWorker(1, &effects_);
  EXPECT_THAT(effects_.requeues, ElementsAre(Requeue::kWorkerLost));
  EXPECT_EQ(Next(), "-");  // v is busy
  queue_->Complete(2, Result("b", 1), &effects_);
  EXPECT_EQ(Next(), "2:a#2");  // before c, which never ran
  queue_->Complete(2, Result("a", 2), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT", "1/1:CORRECT"));
}

TEST_F(EvaluationQueueTest, HeartbeatsExtendALease) {
  AddWorker("w");
  Submit(1, "a");
  Next();
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(20));
    queue_->Heartbeat(1, {"a"}, &effects_);
    queue_->ExpireLeases(&effects_);
  }
  EXPECT_THAT(effects_.requeues, IsEmpty());
}

TEST_F(EvaluationQueueTest, ASilentWorkerLosesItsLeasesAndGetsNoNewOnes) {
  AddWorker("frozen", 4);
  Submit(1, "a");
  Next();
  clock_.Advance(absl::Seconds(30));
  queue_->ExpireLeases(&effects_);
  EXPECT_THAT(Cancels(), ElementsAre("1:a"));
  EXPECT_EQ(Next(), "-");
  AddWorker("fresh");
  EXPECT_EQ(Next(), "2:a#2");
  Submit(1, "b");
  EXPECT_EQ(Next(), "-");
  queue_->Heartbeat(1, {}, &effects_);  // it thawed
  EXPECT_EQ(Next(), "1:b#1");
}

TEST_F(EvaluationQueueTest, ALateResultCountsWhileUndecided) {
  AddWorker("slow");
  Submit(1, "a");
  Next();
  clock_.Advance(absl::Seconds(30));
  queue_->ExpireLeases(&effects_);
  AddWorker("other");
  EXPECT_EQ(Next(), "2:a#2");
  Cancels();
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT"));
  EXPECT_THAT(Cancels(), ElementsAre("2:a"));
  EXPECT_EQ(effects_.late_accepted, 1);
  queue_->Complete(2, Result("a", 2, WRONG_RESULT), &effects_);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(effects_.late_ignored, 1);
}

TEST_F(EvaluationQueueTest, AFencedWorkerCannotFailAnothersLease) {
  AddWorker("slow");
  Submit(1, "a");
  Next();
  queue_->RemoveWorker(1, &effects_);
  AddWorker("other");
  EXPECT_EQ(Next(), "2:a#2");
  queue_->Complete(1, InfraError("a", 1), &effects_);
  queue_->Complete(2, InfraError("a", 1), &effects_);  // an old attempt
  EXPECT_EQ(queue_->Stats().leased, 1);
  EXPECT_EQ(effects_.late_ignored, 2);
}

TEST_F(EvaluationQueueTest, RetriesElsewhereThenReportsLostNeverAVerdict) {
  Reset({.max_infra_errors = 3});
  for (const char* n : {"u", "v", "w"}) AddWorker(n);
  Submit(1, "a");
  std::set<std::string> tried;
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(absl::Seconds(60));
    const auto a = queue_->LeaseNext();
    ASSERT_TRUE(a.has_value());
    tried.insert(absl::StrCat(a->worker));
    EXPECT_THAT(Answers(), IsEmpty());
    queue_->Complete(a->worker, InfraError("a", a->lease.attempt()), &effects_);
  }
  EXPECT_THAT(tried, SizeIs(3));
  EXPECT_THAT(effects_.answers[0].response.infra_error().message(),
              HasSubstr("no disk"));
  EXPECT_THAT(Answers(), ElementsAre("1/1:infra 0"));
  EXPECT_EQ(effects_.lost, 1);
  EXPECT_THAT(effects_.cacheable, IsEmpty());
}

TEST_F(EvaluationQueueTest, WaitsBeforeItRetriesOnTheOnlyWorker) {
  AddWorker("w");
  Submit(1, "a");
  Next();
  queue_->Complete(1, InfraError("a", 1), &effects_);
  EXPECT_EQ(Next(), "-");
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_EQ(Next(), "1:a#2");
}

TEST_F(EvaluationQueueTest, AVerdictWithoutOutcomeIsAnInfrastructureFailure) {
  AddWorker("w");
  Submit(1, "a");
  Next();
  queue_->Complete(1, Result("a", 1, OUTCOME_UNSPECIFIED), &effects_);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_THAT(effects_.requeues, ElementsAre(Requeue::kInfraError));
}

TEST_F(EvaluationQueueTest, GivesUpOnWhatKillsEveryWorker) {
  Reset({.max_worker_losses = 2});
  Submit(1, "poison");
  for (int i = 0; i < 3; ++i) {
    const WorkerId w = AddWorker(absl::StrCat("w", i));
    EXPECT_THAT(Answers(), IsEmpty());
    EXPECT_EQ(Next(), absl::StrCat(w, ":poison#", i + 1, i == 2 ? "!" : ""));
    queue_->RemoveWorker(w, &effects_);
  }
  EXPECT_THAT(Answers(), ElementsAre("1/1:infra 0"));
}

TEST_F(EvaluationQueueTest, WhoSatBesideAPoisonIsNotLostWithIt) {
  Reset({.max_worker_losses = 2});
  Submit(1, "poison", 1);
  Submit(1, "wholesome", 2);
  for (int i = 0; i < 2; ++i) {
    const WorkerId w = AddWorker(absl::StrCat("w", i), 2);
    Next();
    EXPECT_EQ(Next(), absl::StrCat(w, ":wholesome#", i + 1));
    queue_->RemoveWorker(w, &effects_);
  }
  AddWorker("w2", 2);
  EXPECT_EQ(Next(), "3:poison#3!");
  EXPECT_EQ(Next(), "-");  // not beside it again
  queue_->RemoveWorker(3, &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:infra 0"));
  AddWorker("w3", 2);
  EXPECT_EQ(Next(), "4:wholesome#3!");
  queue_->Complete(4, Result("wholesome", 3), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/2:CORRECT"));
}

TEST_F(EvaluationQueueTest, ATimeoutCountsOnlyWhenRepeatedAlone) {
  AddWorker("w", 2);
  Submit(1, "slow");
  Submit(1, "b");
  Submit(1, "c");
  Next();
  EXPECT_EQ(Next(), "1:b#1");
  queue_->Complete(1, Result("slow", 1, TIMEOUT), &effects_);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(Next(), "-");  // the worker runs empty: c has to wait
  queue_->Complete(1, Result("b", 1), &effects_);
  EXPECT_EQ(Next(), "1:slow#2!");
  EXPECT_EQ(Next(), "-");
  Answers();
  effects_.cacheable.clear();
  queue_->Complete(1, Result("slow", 2, TIMEOUT), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:TIMEOUT"));
  EXPECT_THAT(effects_.cacheable, SizeIs(1));
  EXPECT_EQ(Next(), "1:c#1");
}

TEST_F(EvaluationQueueTest, TheRepeatedRunDecidesWhenTheFirstTimedOut) {
  AddWorker("w", 2);
  Submit(1, "slow");
  Next();
  queue_->Complete(1, Result("slow", 1, TIMEOUT), &effects_);
  EXPECT_EQ(Next(), "1:slow#2!");
  queue_->Complete(1, Result("slow", 2, CORRECT), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT"));
}

TEST_F(EvaluationQueueTest, ATimeoutThatLoadCannotCauseCountsAtOnce) {
  AddWorker("w");
  Submit(1, "slow");
  Next();
  WorkerResult r = Result("slow", 1, TIMEOUT);
  r.mutable_verdict()->add_notes("cpu_time_limit");
  queue_->Complete(1, r, &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:TIMEOUT"));
  EXPECT_THAT(effects_.cacheable, SizeIs(1));
}

TEST_F(EvaluationQueueTest, AnUnconfirmedTimeoutIsNotCached) {
  Reset({.confirm_timeouts = false});
  AddWorker("w");
  Submit(1, "slow");
  Next();
  queue_->Complete(1, Result("slow", 1, TIMEOUT), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:TIMEOUT"));
  EXPECT_THAT(effects_.cacheable, IsEmpty());
}

TEST_F(EvaluationQueueTest, AWorkerThatComesBackKeepsWhatItRuns) {
  AddWorker("w", 2);
  Submit(1, "a");
  Next();
  RegisterWorker hello = Hello("w", 2);
  hello.add_running()->set_key("a");
  hello.mutable_running(0)->set_attempt(1);
  EXPECT_EQ(queue_->AddWorker(hello, &effects_), 2);
  EXPECT_EQ(Next(), "-");  // not leased again
  EXPECT_THAT(effects_.requeues, IsEmpty());
  queue_->RemoveWorker(1, &effects_);  // the old stream is noticed dead now
  queue_->Complete(2, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT"));
  EXPECT_EQ(effects_.late_accepted, 0);
}

TEST_F(EvaluationQueueTest, AfterARestartRunningWorkIsAdoptedNotRepeated) {
  RegisterWorker hello = Hello("w", 2);
  hello.add_running()->set_key("a");
  hello.mutable_running(0)->set_attempt(3);
  queue_->AddWorker(hello, &effects_);
  EXPECT_EQ(Submit(9, "a", 5), Admission::kJoined);
  EXPECT_EQ(Next(), "-");
  // The worker dies after all: the client's content makes a new lease possible.
  queue_->RemoveWorker(1, &effects_);
  AddWorker("v");
  const auto lease = queue_->LeaseNext();
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->lease.attempt(), 4);
  EXPECT_EQ(lease->lease.candidate_source(), "src a");
}

TEST_F(EvaluationQueueTest, AResultThatNobodyWaitsForIsStillWorthCaching) {
  AddWorker("w");
  Submit(1, "a");
  Submit(1, "b");
  Next();
  queue_->RemoveClient(1);
  EXPECT_EQ(queue_->Stats().queued, 0);
  EXPECT_EQ(queue_->Stats().leased, 1);
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_THAT(effects_.cacheable, SizeIs(1));
}

TEST_F(EvaluationQueueTest, AnotherClientInheritsAPlaceInTheLine) {
  AddWorker("w");
  Submit(1, "a");
  Submit(2, "a");
  Submit(1, "b");
  queue_->RemoveClient(1);
  EXPECT_EQ(Next(), "1:a#1");
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("2/1:CORRECT"));
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(queue_->Stats().queued, 0);
}

TEST_F(EvaluationQueueTest, AClientThatLeavesTakesItsParkedWorkAlong) {
  AddWorker("w");
  queue_->Submit(1, 1, {.key = "a", .task_digest = "t", .task_known = false});
  queue_->RemoveClient(1);
  queue_->TaskArrived("t");
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(queue_->Stats().queued, 0);
}

TEST_F(EvaluationQueueTest, ParkedWorkIsLostWhenItsClientWillSendNoTask) {
  queue_->Submit(1, 4, {.key = "a", .task_digest = "t", .task_known = false});
  Submit(1, "b", 5);
  queue_->AbandonParked(1, &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/4:infra 0"));
  EXPECT_EQ(queue_->Stats().queued, 1);
}

TEST_F(EvaluationQueueTest, ADrainingWorkerFinishesAndGetsNothingNew) {
  AddWorker("w", 2);
  Submit(1, "a");
  Next();
  queue_->SetDraining(1);
  Submit(1, "b");
  EXPECT_EQ(Next(), "-");
  queue_->Complete(1, Result("a", 1), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT"));
  EXPECT_TRUE(queue_->Stats().workers[0].draining());
}

TEST_F(EvaluationQueueTest, AHeartbeatForWorkThatIsNotHeldIsCancelled) {
  AddWorker("w");
  queue_->Heartbeat(1, {"unknown"}, &effects_);
  EXPECT_THAT(Cancels(), ElementsAre("1:unknown"));
}

TEST_F(EvaluationQueueTest, ACachedVerdictAnswersWhatAlreadyWaits) {
  AddWorker("w");
  Submit(1, "a");
  Next();
  queue_->Decide("a", Outcome_(CORRECT), &effects_);
  EXPECT_THAT(Answers(), ElementsAre("1/1:CORRECT"));
  EXPECT_EQ(queue_->Stats().leased, 0);
}

// Every request is answered exactly once, whatever dies in between.
TEST_F(EvaluationQueueTest, AnswersEachRequestExactlyOnceUnderRandomFailures) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Reset({.max_infra_errors = 2, .max_worker_losses = 2});
    Rng rng(seed);
    std::map<std::pair<ClientId, uint64_t>, int> answered;
    std::vector<Assignment> held;
    std::vector<WorkerId> workers;
    uint64_t submitted = 0;
    int names = 0;
    auto settle = [&] {
      for (const auto& a : effects_.answers) {
        ++answered[{a.client, a.response.request_id()}];
      }
      effects_ = {};
      while (auto a = queue_->LeaseNext()) held.push_back(*a);
    };
    for (int step = 0; step < 3000 || answered.size() < submitted; ++step) {
      ASSERT_LT(step, 100000) << "stuck";
      const uint64_t what = rng.Below(10);
      if (workers.size() < 2 || (what == 0 && workers.size() < 5)) {
        workers.push_back(AddWorker(absl::StrCat("w", names++), 3));
      } else if (what < 4 && step < 3000) {
        ++submitted;
        Submit(1 + rng.Below(3), absl::StrCat("k", rng.Below(200)), submitted);
      } else if (what == 4 && rng.Below(5) == 0) {
        const size_t i = rng.Below(workers.size());
        queue_->RemoveWorker(workers[i], &effects_);
        workers.erase(workers.begin() + i);
      } else if (what == 5) {
        clock_.Advance(absl::Seconds(2));
        queue_->ExpireLeases(&effects_);
      } else if (!held.empty()) {
        const size_t i = rng.Below(held.size());
        const Assignment a = held[i];
        held.erase(held.begin() + i);
        const Outcome outcome = rng.Below(8) == 0 ? TIMEOUT : CORRECT;
        queue_->Complete(
            a.worker,
            rng.Below(10) == 0
                ? InfraError(a.lease.key(), a.lease.attempt())
                : Result(a.lease.key(), a.lease.attempt(), outcome),
            &effects_);
      }
      settle();
    }
    EXPECT_EQ(answered.size(), submitted);
    for (const auto& [who, times] : answered) EXPECT_EQ(times, 1);
    EXPECT_EQ(queue_->Stats().queued, 0);
  }
}

TEST_F(EvaluationQueueTest, IsSafeFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> answers{0};
  constexpr int kEach = 500;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Effects effects;
      const WorkerId w =
          queue_->AddWorker(Hello(absl::StrCat("w", t), 4), &effects);
      for (int i = 0; i < kEach; ++i) {
        Submit(t + 1, absl::StrCat("k", i), t * kEach + i);
        while (auto a = queue_->LeaseNext()) {
          queue_->Heartbeat(a->worker, {a->lease.key()}, &effects);
          queue_->Complete(
              a->worker, Result(a->lease.key(), a->lease.attempt()), &effects);
        }
        queue_->ExpireLeases(&effects);
        queue_->Stats();
      }
      answers += static_cast<int>(effects.answers.size());
      (void)w;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(answers, 4 * kEach);
}

}  // namespace
}  // namespace dice
