// Real processes for the tests in this folder: a pool, its workers, clients.
// Every wait has a deadline; destructors kill whole process groups.
#ifndef DICE_TESTS_INTEGRATION_EVALUATOR_HARNESS_H_
#define DICE_TESTS_INTEGRATION_EVALUATOR_HARNESS_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/process.h"
#include "proto/evaluator_service.grpc.pb.h"

namespace dice {

// A folder under the test's temporary one, removed at the end unless the test
// failed (then its path is printed, with the logs in it).
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  std::string operator/(const std::string& name) const;

 private:
  std::string path_;
};

// Polls `done` until it holds; fails the test after `limit`.
bool Eventually(const std::function<bool()>& done,
                absl::Duration limit = absl::Seconds(60));

// dice-evaluator with `flags`; ready when this returns (null: it is not, and
// the test has failed).
struct EvaluatorProcess {
  std::unique_ptr<Process> process;
  std::string address;  // pool only
  std::string metrics;
};
std::unique_ptr<EvaluatorProcess> StartEvaluator(
    const TestFolder& folder, const std::string& name,
    const std::vector<std::string>& flags);
// GET /metrics; the value of one series, 0 if absent.
double ReadMetric(const std::string& metrics_address,
                  const std::string& series);

// A client as an actor is one: one stream, many in flight, resubmits what is
// undecided after the stream broke, and after a retryable error.
class TestClient {
 public:
  explicit TestClient(const std::string& address);
  TestClient(const std::string& address, Task task, Profile profile);
  ~TestClient();

  void Submit(const std::string& candidate) ABSL_LOCKS_EXCLUDED(mu_);
  // Until `n` requests have their final answer.
  bool AwaitAnswers(size_t n, absl::Duration limit = absl::Seconds(90))
      ABSL_LOCKS_EXCLUDED(mu_);
  size_t answers() const ABSL_LOCKS_EXCLUDED(mu_);

  // Final answers by request: outcome name, or "infra: message".
  std::map<uint64_t, std::string> results() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t answered_twice() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t cached() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t retries() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Stream = grpc::ClientReaderWriter<EvaluateRequest, EvaluateResponse>;
  void Run(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mu_);
  void RunStream(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mu_);
  void OnResponse(Stream& stream, const EvaluateResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);

  const std::unique_ptr<EvaluatorService::Stub> stub_;
  const Task task_;
  const Profile profile_;
  mutable Mutex mu_;
  CondVar changed_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::string> undecided_ ABSL_GUARDED_BY(mu_);
  std::deque<uint64_t> to_send_ ABSL_GUARDED_BY(mu_);
  bool send_task_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint64_t, std::string> results_ ABSL_GUARDED_BY(mu_);
  // Of the current stream: a second answer there is a bug of the pool.
  std::set<uint64_t> answered_here_ ABSL_GUARDED_BY(mu_);
  int64_t answered_twice_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t cached_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t retries_ ABSL_GUARDED_BY(mu_) = 0;
  std::jthread thread_;
};

}  // namespace dice

#endif  // DICE_TESTS_INTEGRATION_EVALUATOR_HARNESS_H_
