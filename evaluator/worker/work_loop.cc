#include "evaluator/worker/work_loop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rpc/backoff.h"
#include "common/tasks/tasks.h"

namespace dice {
namespace {

WorkerMessage NeedsTask(const std::string& digest) {
  WorkerMessage m;
  m.mutable_needs_task()->set_task_digest(digest);
  return m;
}

WorkerMessage InfraError(const std::string& key, int64_t attempt,
                         std::string why) {
  WorkerMessage m;
  m.mutable_result()->set_key(key);
  m.mutable_result()->set_attempt(attempt);
  m.mutable_result()->set_infra_error(std::move(why));
  return m;
}

}  // namespace

WorkLoop::WorkLoop(const Options& options, Judge& judge, Clock& clock,
                   Send send)
    : options_(options), judge_(judge), clock_(clock), send_(std::move(send)) {
  for (int i = 0; i < options_.slots; ++i) {
    threads_.push_back(
        StartThread(absl::StrCat("slot-", i),
                    [this](std::stop_token stop) { RunSlot(stop); }));
  }
  threads_.push_back(
      StartThread("heartbeat", [this](std::stop_token stop) { Beat(stop); }));
}

WorkLoop::~WorkLoop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    for (const auto& [key, job] : jobs_) job->abandoned = true;
    changed_.NotifyAll();
  }
  judge_.Shutdown();
  threads_.clear();
}

void WorkLoop::Handle(const PoolMessage& message) {
  switch (message.message_case()) {
    case PoolMessage::kLease:
      AddLease(message.lease());
      break;
    case PoolMessage::kTask:
      AddTask(message.task());
      break;
    case PoolMessage::kCancelKey:
      Cancel(message.cancel_key());
      break;
    default:
      break;
  }
}

void WorkLoop::AddLease(const EvaluationLease& lease) {
  bool ask = false;
  {
    MutexLock lock(mu_);
    std::shared_ptr<Job>& job = jobs_[lease.key()];
    if (job != nullptr && job->abandoned) {
      job->again = lease;  // starts when the old one is dead
      return;
    }
    if (job != nullptr) {
      job->attempt = lease.attempt();
      return;
    }
    job = std::make_shared<Job>(Job{
        .lease = lease, .attempt = lease.attempt(), .progress = clock_.Now()});
    const auto task = tasks_.find(lease.task_digest());
    if (task != tasks_.end()) {
      job->task = task->second;
      job->state = State::kReady;
      ready_.push_back(job);
      changed_.NotifyAll();
    } else {
      ask = true;
    }
  }
  if (ask) send_(NeedsTask(lease.task_digest()));
}

void WorkLoop::AddTask(const Task& task) {
  const std::string digest = TaskDigest(task);
  MutexLock lock(mu_);
  // Any of the old ones may go: a lease that needs it asks again.
  if (tasks_.size() >= options_.max_tasks) tasks_.erase(tasks_.begin());
  const auto kept = std::make_shared<const Task>(task);
  tasks_[digest] = kept;
  for (const auto& [key, job] : jobs_) {
    if (job->state == State::kNeedsTask && job->lease.task_digest() == digest) {
      job->task = kept;
      job->state = State::kReady;
      job->progress = clock_.Now();
      ready_.push_back(job);
    }
  }
  changed_.NotifyAll();
}

void WorkLoop::Cancel(const std::string& key) {
  std::stop_source stop(std::nostopstate);
  {
    MutexLock lock(mu_);
    const auto it = jobs_.find(key);
    if (it == jobs_.end()) return;
    const std::shared_ptr<Job> job = it->second;
    job->again.reset();
    job->abandoned = true;
    if (job->state != State::kRunning) {
      std::erase(ready_, job);
      jobs_.erase(it);
      changed_.NotifyAll();
      return;
    }
    stop = job->stop;
  }
  // Outside the lock: it runs the judge's callbacks.
  stop.request_stop();
}

std::vector<RunningEvaluation> WorkLoop::Resume() {
  std::vector<RunningEvaluation> out;
  std::set<std::string> needed;
  {
    MutexLock lock(mu_);
    for (const auto& [key, job] : jobs_) {
      if (job->abandoned) continue;
      RunningEvaluation& running = out.emplace_back();
      running.set_key(key);
      running.set_attempt(job->attempt);
      if (job->state == State::kNeedsTask) {
        needed.insert(job->lease.task_digest());
      }
    }
  }
  for (const std::string& digest : needed) send_(NeedsTask(digest));
  return out;
}

bool WorkLoop::AwaitIdle(absl::Time deadline) {
  MutexLock lock(mu_);
  while ((!jobs_.empty() || running_ > 0) && clock_.Now() < deadline) {
    clock_.Await(changed_, mu_, deadline);
  }
  return jobs_.empty() && running_ == 0;
}

int WorkLoop::held() const {
  MutexLock lock(mu_);
  return static_cast<int>(jobs_.size());
}

// ---------------------------------------------------------------------- slots

std::shared_ptr<WorkLoop::Job> WorkLoop::Take() {
  MutexLock lock(mu_);
  while (!stopping_) {
    const bool may_start = !ready_.empty() && !alone_ &&
                           (!ready_.front()->lease.alone() || running_ == 0);
    if (may_start) {
      std::shared_ptr<Job> job = ready_.front();
      ready_.pop_front();
      job->state = State::kRunning;
      job->progress = clock_.Now();
      alone_ = job->lease.alone();
      ++running_;
      return job;
    }
    changed_.Wait(mu_);
  }
  return nullptr;
}

void WorkLoop::RunSlot(std::stop_token) {
  while (std::shared_ptr<Job> job = Take()) {
    const EvaluationControl control{.stop = job->stop.get_token(),
                                    .on_stage = [this, job](JudgeStage) {
                                      MutexLock lock(mu_);
                                      job->progress = clock_.Now();
                                    }};
    Finish(job,
           judge_.EvaluateControlled(*job->task, job->lease.candidate_source(),
                                     job->lease.profile(), control));
  }
}

void WorkLoop::Finish(const std::shared_ptr<Job>& job,
                      absl::StatusOr<Verdict> result) {
  std::optional<WorkerMessage> message;
  std::optional<EvaluationLease> again;
  {
    MutexLock lock(mu_);
    jobs_.erase(job->lease.key());
    again = std::move(job->again);
    if (!job->abandoned) {
      message = InfraError(job->lease.key(), job->attempt,
                           result.status().ToString());
    }
  }
  if (message && result.ok()) {
    *message->mutable_result()->mutable_verdict() = *std::move(result);
  }
  if (message) send_(*std::move(message));
  if (again) AddLease(*again);
  // Last: AwaitIdle may return now, and everything has been sent.
  MutexLock lock(mu_);
  --running_;
  if (job->lease.alone()) alone_ = false;
  changed_.NotifyAll();
}

// ----------------------------------------------------------------- heartbeats

void WorkLoop::Beat(std::stop_token stop) {
  while (SleepUnlessStopped(clock_, options_.heartbeat, stop)) BeatOnce();
}

void WorkLoop::BeatOnce() {
  WorkerMessage beat;
  beat.mutable_heartbeat();
  std::vector<WorkerMessage> hung;
  std::vector<std::stop_source> kill;
  {
    MutexLock lock(mu_);
    const absl::Time now = clock_.Now();
    for (const auto& [key, job] : jobs_) {
      if (job->abandoned) continue;
      if (now - job->progress < options_.stage_limit) {
        beat.mutable_heartbeat()->add_progressing_keys(key);
        continue;
      }
      if (job->state != State::kRunning) continue;  // its lease expires
      hung.push_back(
          InfraError(key, job->attempt,
                     absl::StrCat("no progress for ",
                                  absl::FormatDuration(options_.stage_limit))));
      job->abandoned = true;
      kill.push_back(job->stop);
    }
  }
  send_(std::move(beat));
  for (WorkerMessage& m : hung) {
    DICE_LOG(kError) << m.result().key() << ": " << m.result().infra_error();
    send_(std::move(m));
  }
  for (std::stop_source& stop : kill) stop.request_stop();
}

}  // namespace dice
