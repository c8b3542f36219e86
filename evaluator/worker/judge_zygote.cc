#include "evaluator/worker/judge_zygote.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"

namespace dice {

void JailedChild::Kill() {
  if (pidfd_.get() >= 0) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  }
}

absl::StatusOr<absl::Duration> JailedChild::CpuTime() const {
  clockid_t clock;
  timespec t;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &t) != 0) {
    return absl::UnavailableError("the process is gone");
  }
  return absl::DurationFromTimespec(t);
}

int64_t JailedChild::ResidentBytes() const {
  const auto statm = ReadFile(absl::StrCat("/proc/", pid_, "/statm"));
  long pages = 0;
  if (!statm.ok() || sscanf(statm->c_str(), "%*d %ld", &pages) != 1) return 0;
  return pages * sysconf(_SC_PAGESIZE);
}

absl::StatusOr<std::unique_ptr<Zygote>> Zygote::Start(const Options& options) {
  std::unique_ptr<Zygote> z(new Zygote);
  char root[] = "/tmp/dice-jail-XXXXXX";
  if (mkdtemp(root) == nullptr) {
    return absl::UnavailableError("cannot make a folder in /tmp");
  }
  z->root_ = root;
  DICE_ASSIGN_OR_RETURN(auto pair, Channel::MakePair());
  DICE_ASSIGN_OR_RETURN(
      z->process_,
      Process::Spawn(
          {.argv = {options.python, "-s", "-B",
                    options.harness_dir + "/evaluator/runner/zygote.py",
                    options.harness_dir, options.jail_library,
                    absl::StrCat(options.level), root},
           // One thread everywhere: a fork copies only one. Our own
           // library folders must not reach Python.
           .env = {{"OMP_NUM_THREADS", "1"},
                   {"MKL_NUM_THREADS", "1"},
                   {"OPENBLAS_NUM_THREADS", "1"},
                   {"PYTHONHASHSEED", "0"},
                   // Parts of torch ask who we are and where to keep caches.
                   {"USER", "dice"},
                   {"HOME", "/tmp"},
                   {"TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor"},
                   {"CUDA_VISIBLE_DEVICES", ""}},
           .stdout_path = options.log_path,
           .stderr_path = options.log_path,
           .fds = {{pair.second.get(), 3}}}));
  pair.second = OwnedFd();
  z->channel_ = std::make_unique<Channel>(std::move(pair.first));
  auto ready = z->channel_->Receive(absl::Now() + absl::Minutes(3));
  if (!ready.ok()) {
    const auto log = ReadFile(options.log_path);
    return absl::FailedPreconditionError(absl::StrCat(
        "the judge's Python (", options.python,
        ") did not start; is torch installed there? ",
        log.ok()
            ? log->substr(log->size() - std::min<size_t>(log->size(), 1500))
            : std::string(ready.status().message())));
  }
  z->level_ = ready->body.value("ready", -1);
  z->note_ = ready->body.value("text", "");
  if (z->level_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the sandbox cannot be set up: ", z->note_));
  }
  Zygote* self = z.get();
  z->listener_ = StartThread(
      "zygote", [self](std::stop_token stop) { self->Listen(stop); });
  return z;
}

Zygote::~Zygote() {
  listener_.request_stop();
  if (process_ != nullptr) process_->Kill(SIGKILL);
  if (listener_.joinable()) listener_.join();
  process_.reset();
  if (!root_.empty()) rmdir(root_.c_str());
}

void Zygote::Listen(std::stop_token stop) {
  while (!stop.stop_requested()) {
    auto message = channel_->Receive(absl::Now() + absl::Seconds(1));
    if (absl::IsDeadlineExceeded(message.status())) continue;
    MutexLock lock(mu_);
    if (!message.ok()) {
      gone_ = true;
      changed_.NotifyAll();
      if (!stop.stop_requested()) DICE_LOG(kError) << "the zygote is gone";
      return;
    }
    const std::string job = message->body.value("job", "");
    if (message->body.contains("exit")) {
      const auto it = jobs_.find(job);
      if (it != jobs_.end()) {
        exits_[it->second] = message->body.value("exit", 0);
        jobs_.erase(it);
      }
      // Nobody waits for most exits; keep the newest.
      while (exits_.size() > 256) exits_.erase(exits_.begin());
    } else {
      Started& s = started_[job];
      s.pid = message->body.value("pid", -1);
      s.error = message->body.value("error", "");
      if (!message->fds.empty()) s.pidfd = std::move(message->fds[0]);
      if (s.pid > 0) {
        jobs_[job] = s.pid;
        exits_.erase(s.pid);  // of an earlier process with this number
      }
    }
    changed_.NotifyAll();
  }
}

absl::StatusOr<std::unique_ptr<JailedChild>> Zygote::Fork(
    const std::string& role, const ChildLimits& limits) {
  DICE_ASSIGN_OR_RETURN(auto pair, Channel::MakePair());
  std::string job;
  {
    MutexLock lock(mu_);
    if (gone_) return absl::UnavailableError("the zygote is gone");
    job = absl::StrCat(next_job_++);
  }
  {
    MutexLock lock(send_mu_);
    DICE_RETURN_IF_ERROR(channel_->Send({{"op", "fork"},
                                         {"job", job},
                                         {"role", role},
                                         {"limits",
                                          {{"data_bytes", limits.memory_bytes},
                                           {"file_bytes", limits.file_bytes},
                                           {"open_files", 64},
                                           {"cpu_seconds", limits.cpu_seconds},
                                           {"threads", limits.threads}}}},
                                        {pair.second.get()}));
  }
  pair.second = OwnedFd();
  MutexLock lock(mu_);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (started_.find(job) == started_.end() && !gone_ &&
         absl::Now() < deadline) {
    Clock::Real().Await(changed_, mu_, deadline);
  }
  const auto it = started_.find(job);
  if (it == started_.end()) return absl::UnavailableError("the zygote is gone");
  Started started = std::move(it->second);
  started_.erase(it);
  if (started.pid < 0) {
    return absl::UnavailableError(absl::StrCat("fork: ", started.error));
  }
  return std::make_unique<JailedChild>(started.pid, std::move(started.pidfd),
                                       std::move(pair.first));
}

absl::StatusOr<int> Zygote::AwaitExit(pid_t pid, absl::Time deadline) {
  MutexLock lock(mu_);
  while (exits_.find(pid) == exits_.end() && !gone_ && absl::Now() < deadline) {
    Clock::Real().Await(changed_, mu_, deadline);
  }
  const auto it = exits_.find(pid);
  if (it == exits_.end()) return absl::UnavailableError("exit not seen");
  const int code = it->second;
  exits_.erase(it);
  return code;
}

}  // namespace dice
