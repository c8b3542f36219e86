#include "evaluator/pool/pool.h"

#include <filesystem>
#include <fstream>
#include <regex>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/rpc/protocol.h"
#include "common/tasks/tasks.h"
#include "evaluator/worker/metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <typename Message>
class RecordingSink : public Sink<Message> {
 public:
  void Send(Message m) override { messages.push_back(std::move(m)); }
  void Close() override { closed = true; }
  std::vector<Message> Take() { return std::exchange(messages, {}); }
  std::vector<Message> messages;
  bool closed = false;
};

Task MakeTask(const std::string& id) {
  Task task;
  task.set_id(id);
  task.set_reference_source("reference " + id);
  return task;
}

EvaluateRequest Request(uint64_t id, const std::string& source,
                        const Task& task) {
  EvaluateRequest r;
  r.set_request_id(id);
  r.set_candidate_source(source);
  r.set_task_digest(TaskDigest(task));
  return r;
}

WorkerMessage Hello(const std::string& name, const std::string& device = "gpu",
                    int version = kProtocolVersion) {
  WorkerMessage m;
  m.mutable_hello()->set_protocol_version(version);
  m.mutable_hello()->set_name(name);
  m.mutable_hello()->set_device(device);
  m.mutable_hello()->set_harness_version("h1");
  m.mutable_hello()->set_slots(4);
  return m;
}

WorkerMessage Result(const EvaluationLease& lease, Outcome outcome,
                     double candidate_ms = 0) {
  WorkerMessage m;
  m.mutable_result()->set_key(lease.key());
  m.mutable_result()->set_attempt(lease.attempt());
  Verdict& v = *m.mutable_result()->mutable_verdict();
  v.set_outcome(outcome);
  v.set_candidate_ms(candidate_ms);
  v.mutable_stage_s()->set_compile(0.5);
  return m;
}

class PoolTest : public ::testing::Test {
 protected:
  PoolTest() { Restart(); }
  // A new front on the same file.
  void Restart() {
    pool_.reset();
    metrics_.reset();
    store_.reset();
    auto store =
        PoolStore::Open({.path = path_, .timing_ttl = absl::Hours(24)}, clock_);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = std::move(*store);
    registry_ = std::make_unique<MetricRegistry>();
    metrics_ = std::make_unique<PoolMetrics>(*registry_);
    pool_ = std::make_unique<Pool>(
        QueueOptions{.queue_limit = 3},
        Pool::Deps{.store = *store_, .metrics = *metrics_, .clock = clock_});
    client_ = pool_->AddClient(&client_sink_);
    worker_ = pool_->AddWorker(&worker_sink_);
  }
  ~PoolTest() override {
    pool_.reset();
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  void SendTask() {
    EvaluateRequest r;
    *r.mutable_task() = task_;
    pool_->Handle(client_, r);
  }
  // One evaluation from request to answer.
  Verdict Evaluate(const std::string& source, Outcome outcome,
                   double candidate_ms = 0) {
    pool_->Handle(client_, Request(1, source, task_));
    for (const PoolMessage& m : worker_sink_.Take()) {
      pool_->HandleWorker(worker_, Result(m.lease(), outcome, candidate_ms));
    }
    const auto answers = client_sink_.Take();
    EXPECT_THAT(answers, SizeIs(1));
    return answers.empty() ? Verdict() : answers[0].verdict();
  }

  const std::string dir_ = [] {
    const std::string dir =
        ::testing::TempDir() + "/pool_" +
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    return dir;
  }();
  const std::string path_ = dir_ + "/cache.sqlite";
  FakeClock clock_;
  const Task task_ = MakeTask("t");
  RecordingSink<EvaluateResponse> client_sink_;
  RecordingSink<PoolMessage> worker_sink_;
  std::unique_ptr<PoolStore> store_;
  std::unique_ptr<MetricRegistry> registry_;
  std::unique_ptr<PoolMetrics> metrics_;
  std::unique_ptr<Pool> pool_;
  ClientId client_ = 0;
  uint64_t worker_ = 0;
};

TEST_F(PoolTest, AsksEachClientOnceForATaskAndHandsItToWorkers) {
  pool_->HandleWorker(worker_, Hello("w"));
  pool_->Handle(client_, Request(1, "a", task_));
  pool_->Handle(client_, Request(2, "b", task_));
  auto answers = client_sink_.Take();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].need_task().task_digest(), TaskDigest(task_));
  EXPECT_THAT(worker_sink_.Take(), IsEmpty());
  SendTask();
  EXPECT_THAT(worker_sink_.Take(), SizeIs(2));
  WorkerMessage needs;
  needs.mutable_needs_task()->set_task_digest(TaskDigest(task_));
  pool_->HandleWorker(worker_, needs);
  EXPECT_EQ(worker_sink_.Take()[0].task().id(), "t");
}

TEST_F(PoolTest, RefusesATaskThatIsNotTheOneItClaimsToBe) {
  pool_->Handle(client_, Request(1, "a", task_));
  client_sink_.Take();
  EvaluateRequest wrong;
  wrong.set_task_digest(TaskDigest(task_));
  *wrong.mutable_task() = MakeTask("other");
  pool_->Handle(client_, wrong);
  const auto answers = client_sink_.Take();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].request_id(), 1);
  EXPECT_FALSE(answers[0].infra_error().retryable());
}

TEST_F(PoolTest, AnswersFromTheCacheWhatWasDecidedBefore) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  EXPECT_FALSE(Evaluate("a", COMPILE_ERROR).cached());
  const Verdict again = Evaluate("a", CORRECT);
  EXPECT_TRUE(again.cached());
  EXPECT_EQ(again.outcome(), COMPILE_ERROR);
  EXPECT_EQ(metrics_->cache_hits.Value(), 1);
  EXPECT_EQ(metrics_->results["compile_error"].Value(), 1);
}

TEST_F(PoolTest, RemembersVerdictsAndTasksOverARestart) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  Evaluate("a", WRONG_RESULT);
  Restart();
  // Before a worker is there nobody knows the device: the request waits, and
  // is answered without a lease when one comes.
  pool_->Handle(client_, Request(1, "a", task_));
  EXPECT_THAT(client_sink_.Take(), IsEmpty());
  pool_->HandleWorker(worker_, Hello("w"));
  EXPECT_THAT(worker_sink_.Take(), IsEmpty());
  const auto answers = client_sink_.Take();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].verdict().outcome(), WRONG_RESULT);
  EXPECT_TRUE(answers[0].verdict().cached());
}

TEST_F(PoolTest, AnotherDeviceDoesNotInheritVerdicts) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  Evaluate("a", WRONG_RESULT);
  pool_->RemoveWorker(worker_);
  worker_ = pool_->AddWorker(&worker_sink_);
  pool_->HandleWorker(worker_, Hello("v", "other gpu"));
  EXPECT_FALSE(Evaluate("a", CORRECT).cached());
}

TEST_F(PoolTest, MeasuredTimesExpireOtherVerdictsDoNot) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  Evaluate("timed", CORRECT, 1.5);
  Evaluate("wrong", WRONG_RESULT);
  clock_.Advance(absl::Hours(23));
  EXPECT_TRUE(Evaluate("timed", CORRECT, 1.5).cached());
  clock_.Advance(absl::Hours(2));
  EXPECT_FALSE(Evaluate("timed", CORRECT, 1.5).cached());
  EXPECT_TRUE(Evaluate("wrong", CORRECT).cached());
}

TEST_F(PoolTest, RefusesWorkersThatDoNotFit) {
  pool_->HandleWorker(worker_, Hello("w"));
  RecordingSink<PoolMessage> other;
  const uint64_t stream = pool_->AddWorker(&other);
  pool_->HandleWorker(stream, Hello("v", "other gpu"));
  EXPECT_THAT(other.Take()[0].refused(), HasSubstr("other gpu"));
  EXPECT_TRUE(other.closed);
  RecordingSink<PoolMessage> old;
  const uint64_t old_stream = pool_->AddWorker(&old);
  pool_->HandleWorker(old_stream, Hello("u", "gpu", 99));
  EXPECT_THAT(old.Take()[0].refused(), HasSubstr("protocol version 99"));
}

TEST_F(PoolTest, AFullQueueIsARetryableErrorOfOurs) {
  SendTask();
  for (int i = 0; i < 4; ++i) {
    pool_->Handle(client_, Request(i, absl::StrCat("c", i), task_));
  }
  const auto answers = client_sink_.Take();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].request_id(), 3);
  EXPECT_TRUE(answers[0].infra_error().retryable());
  EXPECT_EQ(metrics_->rejected.Value(), 1);
}

TEST_F(PoolTest, DrainingRefusesNewWorkButFinishesTheOld) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  pool_->Handle(client_, Request(1, "a", task_));
  pool_->StartDraining();
  pool_->Handle(client_, Request(2, "b", task_));
  EXPECT_TRUE(client_sink_.Take()[0].infra_error().retryable());
  EXPECT_FALSE(pool_->Idle());
  pool_->HandleWorker(worker_, Result(worker_sink_.Take()[0].lease(), CORRECT));
  EXPECT_TRUE(client_sink_.Take()[0].has_verdict());
  EXPECT_TRUE(pool_->Idle());
}

TEST_F(PoolTest, ADrainingWorkerIsToldWhenNoLeaseFollows) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  WorkerMessage draining;
  draining.mutable_draining();
  pool_->HandleWorker(worker_, draining);
  pool_->Handle(client_, Request(1, "a", task_));
  const auto sent = worker_sink_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].drain());
}

TEST_F(PoolTest, AnEmptyRequestIsAnErrorOfTheClient) {
  pool_->Handle(client_, EvaluateRequest());
  EXPECT_FALSE(client_sink_.Take()[0].infra_error().retryable());
}

TEST_F(PoolTest, TheProfileIsPartOfTheKey) {
  EvaluateRequest a = Request(1, "a", task_), b = a;
  EXPECT_EQ(EvaluationKey(a), EvaluationKey(b));
  b.mutable_profile()->set_seed_epoch(1);
  EXPECT_NE(EvaluationKey(a), EvaluationKey(b));
}

TEST_F(PoolTest, ADamagedCacheIsSetAsideNotFatal) {
  pool_.reset();
  store_.reset();
  std::ofstream(path_) << "this is not a database, whatever it looks like";
  std::filesystem::remove(path_ + "-wal");
  std::filesystem::remove(path_ + "-shm");
  Restart();
  EXPECT_TRUE(std::filesystem::exists(path_ + ".old"));
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  EXPECT_FALSE(Evaluate("a", CORRECT).cached());
}

TEST_F(PoolTest, StatusCountsWhatHappened) {
  pool_->HandleWorker(worker_, Hello("w"));
  SendTask();
  Evaluate("a", CORRECT);
  Evaluate("a", CORRECT);
  const PoolStatusResponse s = pool_->Status();
  EXPECT_EQ(s.decided_total(), 1);
  EXPECT_EQ(s.cache_hits_total(), 1);
  EXPECT_EQ(s.judge_seconds_total(), 0.5);
  EXPECT_EQ(s.workers(0).slots(), 4);
}

// docs/metrics.md is what people read; the registry is what exists.
TEST(MetricsPageTest, ListsEveryDeclaredMetricOfPoolAndWorker) {
  const auto page = ReadFile(std::string(std::getenv("DICE_SOURCE_DIR")) +
                             "/docs/metrics.md");
  ASSERT_TRUE(page.ok()) << page.status();
  MetricRegistry registry;
  PoolMetrics pool(registry);
  WorkerMetrics worker(registry);
  for (const std::string& name : registry.names()) {
    EXPECT_THAT(*page, HasSubstr("`" + name + "`"));
  }
  const std::regex ours("`(dice_(evaluator|worker)_[a-z_]+)`");
  for (std::sregex_iterator it(page->begin(), page->end(), ours), end;
       it != end; ++it) {
    EXPECT_THAT(registry.names(), ::testing::Contains((*it)[1].str()));
  }
}

}  // namespace
}  // namespace dice
