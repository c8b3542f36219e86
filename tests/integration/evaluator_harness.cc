#include "tests/integration/evaluator_harness.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/thread.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "common/rpc/ready_file.h"
#include "common/tasks/tasks.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

Task TestTask() {
  Task task;
  task.set_id("integration/0");
  task.set_reference_source("class Model: pass");
  return task;
}

}  // namespace

TestFolder::TestFolder() {
  std::string pattern = ::testing::TempDir() + "/dice_XXXXXX";
  path_ = mkdtemp(pattern.data());
}

TestFolder::~TestFolder() {
  if (::testing::Test::HasFailure()) {
    std::fprintf(stderr, "logs of the failed test are in %s\n", path_.c_str());
    return;
  }
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

std::string TestFolder::operator/(const std::string& name) const {
  return JoinPath(path_, name);
}

bool Eventually(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (!done()) {
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "it did not happen within " << limit;
      return false;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

std::unique_ptr<EvaluatorProcess> StartEvaluator(
    const TestFolder& folder, const std::string& name,
    const std::vector<std::string>& flags) {
  const std::string ready = folder / (name + ".ready");
  std::filesystem::remove(ready);
  Process::Options options;
  options.argv = {
      JoinPath(getenv("DICE_BUILD_DIR"), "evaluator/dice-evaluator"),
      "--ready-file", ready};
  options.argv.insert(options.argv.end(), flags.begin(), flags.end());
  options.stdout_path = options.stderr_path = folder / (name + ".log");
  auto process = Process::Spawn(options);
  if (!process.ok()) {
    ADD_FAILURE() << process.status();
    return nullptr;
  }
  auto out = std::make_unique<EvaluatorProcess>();
  out->process = *std::move(process);
  absl::StatusOr<ReadyInfo> info;
  const bool came = Eventually([&] {
    info = ReadReadyFile(ready);
    return info.ok() || !out->process->Running();
  });
  if (!came || !info.ok()) {
    ADD_FAILURE() << name << " is not ready: "
                  << ReadFile(options.stderr_path).value_or("");
    return nullptr;
  }
  out->address = info->address;
  out->metrics = info->metrics_address;
  return out;
}

double ReadMetric(const std::string& metrics_address,
                  const std::string& series) {
  const std::string out = ::testing::TempDir() + "/metrics.txt";
  std::filesystem::remove(out);
  auto curl =
      Process::Spawn({.argv = {"curl", "-s", metrics_address + "/metrics"},
                      .stdout_path = out});
  if (!curl.ok() || !(*curl)->Wait()->ok()) {
    ADD_FAILURE() << "no metrics from " << metrics_address;
    return 0;
  }
  for (absl::string_view line : absl::StrSplit(*ReadFile(out), '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, series + " ") &&
        absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return 0;
}

// --------------------------------------------------------------------- client

TestClient::TestClient(const std::string& address)
    : TestClient(address, TestTask(), Profile()) {}

TestClient::TestClient(const std::string& address, Task task, Profile profile)
    : stub_(EvaluatorService::NewStub(*CreateChannel(address))),
      task_(std::move(task)),
      profile_(std::move(profile)) {
  thread_ = StartThread("client", [this](std::stop_token s) { Run(s); });
}

TestClient::~TestClient() { thread_.request_stop(); }

void TestClient::Submit(const std::string& candidate) {
  MutexLock lock(mu_);
  const uint64_t id = next_id_++;
  undecided_[id] = candidate;
  to_send_.push_back(id);
  changed_.NotifyAll();
}

void TestClient::Run(std::stop_token stop) {
  do {
    {
      MutexLock lock(mu_);
      to_send_.clear();
      answered_here_.clear();
      for (const auto& [id, candidate] : undecided_) to_send_.push_back(id);
    }
    RunStream(stop);
  } while (SleepUnlessStopped(Clock::Real(), absl::Milliseconds(50), stop));
}

void TestClient::RunStream(std::stop_token stop) {
  grpc::ClientContext context;
  std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  const std::unique_ptr<Stream> stream = stub_->Evaluate(&context);
  std::jthread reader([&](std::stop_token) {
    EvaluateResponse response;
    while (stream->Read(&response)) OnResponse(*stream, response);
    MutexLock lock(mu_);
    to_send_.push_back(0);  // wakes the writer: the stream ended
    changed_.NotifyAll();
  });
  const std::string digest = TaskDigest(task_);
  for (bool open = true; open;) {
    EvaluateRequest request;
    {
      MutexLock lock(mu_);
      while (to_send_.empty() && !send_task_) changed_.Wait(mu_);
      if (std::exchange(send_task_, false)) {
        *request.mutable_task() = task_;
      } else {
        const uint64_t id = to_send_.front();
        to_send_.pop_front();
        if (id == 0) break;
        const auto it = undecided_.find(id);
        if (it == undecided_.end()) continue;
        request.set_request_id(id);
        request.set_candidate_source(it->second);
        *request.mutable_profile() = profile_;
      }
      request.set_task_digest(digest);
    }
    open = stream->Write(request);
  }
  context.TryCancel();
  reader.join();
  stream->Finish();
}

void TestClient::OnResponse(Stream&, const EvaluateResponse& response) {
  MutexLock lock(mu_);
  changed_.NotifyAll();
  const uint64_t id = response.request_id();
  if (response.has_need_task()) {
    send_task_ = true;
    return;
  }
  if (response.has_infra_error() && response.infra_error().retryable()) {
    ++retries_;
    to_send_.push_back(id);
    return;
  }
  answered_twice_ += !answered_here_.insert(id).second;
  undecided_.erase(id);
  cached_ += response.verdict().cached();
  results_[id] = response.has_verdict()
                     ? Outcome_Name(response.verdict().outcome())
                     : "infra: " + response.infra_error().message();
}

bool TestClient::AwaitAnswers(size_t n, absl::Duration limit) {
  return Eventually([&] { return answers() >= n; }, limit);
}

size_t TestClient::answers() const {
  MutexLock lock(mu_);
  return results_.size();
}
std::map<uint64_t, std::string> TestClient::results() const {
  MutexLock lock(mu_);
  return results_;
}
int64_t TestClient::answered_twice() const {
  MutexLock lock(mu_);
  return answered_twice_;
}
int64_t TestClient::cached() const {
  MutexLock lock(mu_);
  return cached_;
}
int64_t TestClient::retries() const {
  MutexLock lock(mu_);
  return retries_;
}

}  // namespace dice
