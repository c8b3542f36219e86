// A learner and a pool, scripted by the test, that record what the actor does.
// Real gRPC services; every wait in them ends when the server drains.
#ifndef DICE_TESTS_ACTOR_FAKES_H_
#define DICE_TESTS_ACTOR_FAKES_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "common/tasks/tasks.h"
#include "proto/evaluator_service.grpc.pb.h"
#include "proto/learner_service.grpc.pb.h"

namespace dice {

// Waits for `condition`, which is read with `mu` held; false after a minute.
template <typename Condition>
bool AwaitTrue(Mutex& mu, CondVar& changed,
               Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  MutexLock lock(mu);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    changed.WaitUntil(
        mu, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  }
  return condition();
}

struct PushedGroup {
  PushGroupHeader header;
  std::vector<Rollout> rollouts;
};

class FakeLearner final : public LearnerService::Service {
 public:
  void Offer(Lease lease) {
    MutexLock lock(mu_);
    offered_.push_back(std::move(lease));
    changed_.NotifyAll();
  }
  void Publish(int64_t version, std::string bytes) {
    MutexLock lock(mu_);
    policy_.mutable_identity()->set_run_id("run");
    policy_.mutable_identity()->set_incarnation(1);
    policy_.mutable_identity()->set_version(version);
    policy_.mutable_identity()->set_digest(Sha256Hex(bytes));
    policy_.set_bytes(static_cast<int64_t>(bytes.size()));
    weights_ = std::move(bytes);
    changed_.NotifyAll();
  }
  void Finish() {
    MutexLock lock(mu_);
    finished_ = true;
    changed_.NotifyAll();
  }
  // The next fetch gets a byte that is not the one that was hashed.
  void CorruptNextFetch() {
    MutexLock lock(mu_);
    corrupt_ = true;
  }
  void Lose(const std::string& lease_id) {
    MutexLock lock(mu_);
    lost_.insert(lease_id);
  }
  bool AwaitGroups(size_t n) {
    return AwaitTrue(mu_, changed_, [&] { return groups_.size() >= n; });
  }
  bool AwaitFetches(int n) {
    return AwaitTrue(mu_, changed_, [&] { return fetches_ >= n; });
  }
  bool AwaitLoss() {
    return AwaitTrue(mu_, changed_, [&] { return told_lost_; });
  }
  std::vector<PushedGroup> groups() {
    MutexLock lock(mu_);
    return groups_;
  }

  grpc::Status LeaseTasks(grpc::ServerContext*,
                          const LeaseTasksRequest* request,
                          LeaseTasksResponse* response) override {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(request->wait_ms());
    MutexLock lock(mu_);
    while (offered_.empty() && !finished_ &&
           std::chrono::steady_clock::now() < deadline) {
      changed_.WaitUntil(mu_, deadline);
    }
    while (!offered_.empty() &&
           response->leases_size() < request->max_leases()) {
      *response->add_leases() = std::move(offered_.front());
      offered_.pop_front();
    }
    response->set_finished(finished_ && response->leases_size() == 0);
    return grpc::Status::OK;
  }

  grpc::Status RenewLeases(grpc::ServerContext*,
                           const RenewLeasesRequest* request,
                           RenewLeasesResponse* response) override {
    MutexLock lock(mu_);
    for (const std::string& id : request->lease_ids()) {
      if (lost_.count(id) == 0) continue;
      response->add_lost(id);
      told_lost_ = true;
    }
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  grpc::Status PushGroup(grpc::ServerContext*,
                         grpc::ServerReader<PushGroupMessage>* reader,
                         PushGroupResponse* response) override {
    PushedGroup group;
    PushGroupMessage message;
    while (reader->Read(&message)) {
      if (message.has_header()) group.header = message.header();
      if (message.has_rollout()) group.rollouts.push_back(message.rollout());
    }
    MutexLock lock(mu_);
    groups_.push_back(std::move(group));
    response->set_accepted(true);
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  grpc::Status WatchPolicy(grpc::ServerContext* context,
                           const WatchPolicyRequest*,
                           grpc::ServerWriter<PolicyVersion>* writer) override {
    int64_t sent = -1;
    while (!context->IsCancelled()) {
      PolicyVersion next;
      {
        MutexLock lock(mu_);
        if (policy_.identity().version() == sent || weights_.empty()) {
          changed_.WaitUntil(mu_, std::chrono::steady_clock::now() +
                                      std::chrono::milliseconds(20));
          continue;
        }
        next = policy_;
      }
      sent = next.identity().version();
      if (!writer->Write(next)) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status FetchWeights(grpc::ServerContext*,
                            const FetchWeightsRequest* request,
                            grpc::ServerWriter<WeightChunk>* writer) override {
    std::string bytes;
    bool corrupt;
    {
      MutexLock lock(mu_);
      if (request->identity().digest() != policy_.identity().digest()) {
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "overtaken");
      }
      bytes = weights_;
      corrupt = std::exchange(corrupt_, false);
      ++fetches_;
      changed_.NotifyAll();
    }
    constexpr size_t kChunk = 1000;
    for (size_t at = 0; at < bytes.size(); at += kChunk) {
      WeightChunk chunk;
      chunk.set_offset(static_cast<int64_t>(at));
      chunk.set_total_bytes(static_cast<int64_t>(bytes.size()));
      chunk.set_data(bytes.substr(at, kChunk));
      chunk.set_xxh3(Xxh3(chunk.data()));
      if (corrupt) chunk.mutable_data()->back() ^= 1;
      if (!writer->Write(chunk)) break;
    }
    return grpc::Status::OK;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<Lease> offered_ ABSL_GUARDED_BY(mu_);
  std::vector<PushedGroup> groups_ ABSL_GUARDED_BY(mu_);
  PolicyVersion policy_ ABSL_GUARDED_BY(mu_);
  std::string weights_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> lost_ ABSL_GUARDED_BY(mu_);
  int fetches_ ABSL_GUARDED_BY(mu_) = 0;
  bool told_lost_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool corrupt_ ABSL_GUARDED_BY(mu_) = false;
};

class FakePool final : public EvaluatorService::Service {
 public:
  // What to answer to the n-th (from 0) evaluation; nullopt = nothing.
  using Script =
      std::function<std::optional<EvaluateResponse>(int n, EvaluateRequest)>;
  explicit FakePool(Script script) : script_(std::move(script)) {}

  static EvaluateResponse Correct() {
    EvaluateResponse response;
    response.mutable_verdict()->set_outcome(CORRECT);
    return response;
  }
  static EvaluateResponse Infra(const std::string& message, bool retryable) {
    EvaluateResponse response;
    response.mutable_infra_error()->set_message(message);
    response.mutable_infra_error()->set_retryable(retryable);
    return response;
  }

  // Ends the stream after this many evaluations, once.
  void BreakStreamAfter(int n) { break_after_ = n; }
  bool AwaitEvaluations(int n) {
    return AwaitTrue(mu_, changed_, [&] { return evaluations_ >= n; });
  }
  // The actor has sent a task, so its first evaluation is here.
  bool AwaitTask() {
    return AwaitTrue(tasks_mu_, changed_, [&] { return tasks_ > 0; });
  }
  int evaluations() {
    MutexLock lock(mu_);
    return evaluations_;
  }
  int tasks() {
    MutexLock lock(tasks_mu_);
    return tasks_;
  }

  grpc::Status Evaluate(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<EvaluateResponse, EvaluateRequest>* stream)
      override {
    EvaluateRequest request;
    while (stream->Read(&request)) {
      if (request.has_task()) {
        Unpark(TaskDigest(request.task()), stream);
        continue;
      }
      MutexLock lock(mu_);
      if (known_.count(request.task_digest()) == 0) {
        EvaluateResponse need;
        need.set_request_id(request.request_id());
        need.mutable_need_task()->set_task_digest(request.task_digest());
        if (parked_[request.task_digest()].empty()) stream->Write(need);
        parked_[request.task_digest()].push_back(request);
        continue;
      }
      if (!AnswerLocked(request, stream)) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone for a while");
      }
    }
    return grpc::Status::OK;
  }

 private:
  using Stream = grpc::ServerReaderWriter<EvaluateResponse, EvaluateRequest>;

  void Unpark(const std::string& digest, Stream* stream) {
    {
      MutexLock lock(tasks_mu_);
      ++tasks_;
    }
    MutexLock lock(mu_);
    known_.insert(digest);
    for (const EvaluateRequest& request : parked_[digest]) {
      (void)AnswerLocked(request, stream);
    }
    parked_.erase(digest);
  }

  bool AnswerLocked(const EvaluateRequest& request, Stream* stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (break_after_ >= 0 && evaluations_ >= break_after_) {
      break_after_ = -1;
      return false;
    }
    auto answer = script_(evaluations_++, request);
    changed_.NotifyAll();
    if (!answer) return true;
    answer->set_request_id(request.request_id());
    stream->Write(*answer);
    return true;
  }

  const Script script_;
  Mutex mu_;
  CondVar changed_;
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::vector<EvaluateRequest>> parked_
      ABSL_GUARDED_BY(mu_);
  int evaluations_ ABSL_GUARDED_BY(mu_) = 0;
  // Apart from mu_, which is held while the script runs.
  Mutex tasks_mu_;
  int tasks_ ABSL_GUARDED_BY(tasks_mu_) = 0;
  std::atomic<int> break_after_ = -1;
};

}  // namespace dice

#endif  // DICE_TESTS_ACTOR_FAKES_H_
