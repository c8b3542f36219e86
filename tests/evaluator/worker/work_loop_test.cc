#include "evaluator/worker/work_loop.h"

#include "common/base/bounded_queue.h"
#include "common/tasks/tasks.h"
#include "evaluator/worker/synthetic_judge.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Task MakeTask(const std::string& id) {
  Task task;
  task.set_id(id);
  task.set_reference_source("reference " + id);
  return task;
}

PoolMessage Lease(const std::string& key, int64_t attempt,
                  const std::string& candidate, const Task& task,
                  bool alone = false) {
  PoolMessage m;
  m.mutable_lease()->set_key(key);
  m.mutable_lease()->set_attempt(attempt);
  m.mutable_lease()->set_candidate_source(candidate);
  m.mutable_lease()->set_task_digest(TaskDigest(task));
  m.mutable_lease()->set_alone(alone);
  return m;
}

PoolMessage TaskMessage(const Task& task) {
  PoolMessage m;
  *m.mutable_task() = task;
  return m;
}

PoolMessage Cancel(const std::string& key) {
  PoolMessage m;
  m.set_cancel_key(key);
  return m;
}

class WorkLoopTest : public ::testing::Test {
 protected:
  void Start(WorkLoop::Options options) {
    loop_.emplace(options, judge_, clock_,
                  [this](WorkerMessage m) { EXPECT_TRUE(sent_.Push(m)); });
  }
  // Lets time pass until a message comes.
  WorkerMessage Next() {
    while (true) {
      if (auto m = sent_.Pop(absl::InfinitePast())) return *m;
      clock_.Advance(absl::Milliseconds(50));
      std::this_thread::yield();
    }
  }
  // The next one that is no heartbeat.
  WorkerMessage NextSent() {
    WorkerMessage m = Next();
    while (m.has_heartbeat()) m = Next();
    return m;
  }
  // Waits until the judge was called for `candidate`.
  void AwaitStart(const std::string& candidate) {
    while (judge_.calls()[candidate] == 0) std::this_thread::yield();
  }

  FakeClock clock_;
  SyntheticJudge judge_{absl::Seconds(1), clock_};
  BoundedQueue<WorkerMessage> sent_{10000};
  const Task task_ = MakeTask("t");
  std::optional<WorkLoop> loop_;
};

TEST_F(WorkLoopTest, AsksForAnUnknownTaskOnceAndKeepsIt) {
  Start({.slots = 1});
  loop_->Handle(Lease("a", 1, "src", task_));
  EXPECT_EQ(NextSent().needs_task().task_digest(), TaskDigest(task_));
  loop_->Handle(TaskMessage(task_));
  AwaitStart("src");
  WorkerMessage m = NextSent();
  EXPECT_EQ(m.result().key(), "a");
  EXPECT_EQ(m.result().attempt(), 1);
  EXPECT_EQ(m.result().verdict().device(), "synthetic");
  loop_->Handle(Lease("b", 1, "two", task_));
  AwaitStart("two");
  EXPECT_EQ(NextSent().result().key(), "b");
}

TEST_F(WorkLoopTest, AFailureOfOursIsNotAVerdict) {
  Start({.slots = 1});
  loop_->Handle(TaskMessage(task_));
  const std::string candidate = "# synthetic: ms=0 infra=disk";
  loop_->Handle(Lease("a", 1, candidate, task_));
  const WorkerMessage m = NextSent();
  EXPECT_FALSE(m.result().has_verdict());
  EXPECT_THAT(m.result().infra_error(), HasSubstr("disk"));
}

TEST_F(WorkLoopTest, CancelKillsAndReportsNothing) {
  Start({.slots = 1});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "src", task_));
  AwaitStart("src");
  loop_->Handle(Cancel("a"));
  EXPECT_TRUE(loop_->AwaitIdle(absl::InfiniteFuture()));
  loop_->Handle(Lease("b", 1, "# synthetic: ms=0", task_));
  EXPECT_EQ(NextSent().result().key(), "b");
}

TEST_F(WorkLoopTest, AKeyLeasedAnewWhileItIsKilledRunsAgain) {
  Start({.slots = 2});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "src", task_));
  AwaitStart("src");
  loop_->Handle(Cancel("a"));
  loop_->Handle(Lease("a", 2, "src", task_));
  while (judge_.calls()["src"] < 2) std::this_thread::yield();
  EXPECT_EQ(NextSent().result().attempt(), 2);
}

TEST_F(WorkLoopTest, ANewerLeaseOfRunningWorkOnlyChangesItsToken) {
  Start({.slots = 2});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "src", task_));
  AwaitStart("src");
  loop_->Handle(Lease("a", 2, "src", task_));
  EXPECT_EQ(NextSent().result().attempt(), 2);
  EXPECT_EQ(judge_.calls()["src"], 1);
}

TEST_F(WorkLoopTest, AnEvaluationAloneWaitsForOthersAndHoldsThemBack) {
  Start({.slots = 3});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "first", task_));
  AwaitStart("first");
  loop_->Handle(Lease("b", 2, "alone", task_, /*alone=*/true));
  loop_->Handle(Lease("c", 1, "third", task_));
  EXPECT_EQ(judge_.calls()["alone"], 0);
  EXPECT_EQ(NextSent().result().key(), "a");
  AwaitStart("alone");
  EXPECT_EQ(judge_.calls()["third"], 0);
  EXPECT_EQ(NextSent().result().key(), "b");
  AwaitStart("third");
  EXPECT_EQ(NextSent().result().key(), "c");
}

TEST_F(WorkLoopTest, HeartbeatsMeanProgressAndEndWithIt) {
  Start({.slots = 1,
         .heartbeat = absl::InfiniteDuration(),
         .stage_limit = absl::Seconds(12)});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "# synthetic: ms=1000000", task_));
  AwaitStart("# synthetic: ms=1000000");
  clock_.Advance(absl::Seconds(11));
  loop_->BeatOnce();
  EXPECT_THAT(Next().heartbeat().progressing_keys(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(1));
  loop_->BeatOnce();
  // The process lives, the work does not.
  EXPECT_THAT(Next().heartbeat().progressing_keys(), IsEmpty());
  const WorkerMessage m = Next();
  EXPECT_THAT(m.result().infra_error(), HasSubstr("no progress"));
  EXPECT_TRUE(loop_->AwaitIdle(absl::InfiniteFuture()));  // it was killed
}

TEST_F(WorkLoopTest, ResumeNamesWhatIsHeldAndAsksForTasksAgain) {
  Start({.slots = 1});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 3, "src", task_));
  AwaitStart("src");
  loop_->Handle(Lease("b", 1, "src2", MakeTask("other")));
  NextSent();
  std::vector<std::pair<std::string, int64_t>> held;
  for (const auto& r : loop_->Resume()) held.emplace_back(r.key(), r.attempt());
  EXPECT_THAT(held, UnorderedElementsAre(std::pair("a", 3), std::pair("b", 1)));
  EXPECT_TRUE(NextSent().has_needs_task());
}

TEST_F(WorkLoopTest, EndsAtOnceAndKillsWhatRuns) {
  Start({.slots = 2});
  loop_->Handle(TaskMessage(task_));
  loop_->Handle(Lease("a", 1, "src", task_));
  AwaitStart("src");
  loop_->Handle(Lease("b", 1, "src2", task_, /*alone=*/true));
  EXPECT_FALSE(loop_->AwaitIdle(clock_.Now()));
  loop_.reset();  // hangs here if it does not
}

}  // namespace
}  // namespace dice
