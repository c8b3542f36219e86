#include "evaluator/compile/compile_box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "evaluator/compile/box_protocol.h"
#include "evaluator/compile/nvrtc.h"

namespace dice {
namespace {

constexpr size_t kMaxLog = 64 * 1024;

OwnedFd Memfd(const char* name) {
  return OwnedFd(memfd_create(name, MFD_CLOEXEC));
}

std::string ReadLog(int fd) {
  std::string out(kMaxLog, '\0');
  const ssize_t n = pread(fd, out.data(), out.size(), 0);
  out.resize(n > 0 ? n : 0);
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileBox>> CompileBox::Start(
    const Options& options) {
  std::unique_ptr<CompileBox> box(new CompileBox);
  DICE_ASSIGN_OR_RETURN(const NvrtcPlaces nvrtc,
                        FindNvrtc(options.site_packages));
  box->cuda_include_dir_ = nvrtc.include_dir;
  std::vector<std::string> paths = options.visible_paths;
  for (const char* p : {"/lib", "/lib64", "/bin", "/usr/bin", "/usr/lib",
                        "/usr/lib64", "/usr/libexec", "/usr/include",
                        "/usr/local/include", "/etc/alternatives"}) {
    paths.emplace_back(p);
  }
  paths.push_back(nvrtc.include_dir);
  paths.push_back(nvrtc.library.substr(0, nvrtc.library.rfind('/')));
  char root[] = "/tmp/dice-box-XXXXXX";
  if (mkdtemp(root) == nullptr) {
    return absl::UnavailableError("cannot make a folder in /tmp");
  }
  box->root_ = root;
  DICE_ASSIGN_OR_RETURN(auto pair, Channel::MakePair());
  DICE_ASSIGN_OR_RETURN(
      box->process_,
      Process::Spawn({.argv = {options.box_binary, absl::StrCat(options.level),
                               root, absl::StrJoin(paths, "\n"),
                               options.site_packages},
                      .stdout_path = options.log_path,
                      .stderr_path = options.log_path,
                      .fds = {{pair.second.get(), 3}}}));
  pair.second = OwnedFd();
  box->channel_ = std::make_unique<Channel>(std::move(pair.first));
  const auto ready = box->channel_->Receive(absl::Now() + absl::Minutes(1));
  if (!ready.ok() || ready->body.value("ready", -1) < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the compile box does not start: ",
        ready.ok() ? ready->body.value("text", "")
                   : std::string(ready.status().message())));
  }
  CompileBox* self = box.get();
  box->listener_ = StartThread(
      "compile-box", [self](std::stop_token stop) { self->Listen(stop); });
  return box;
}

CompileBox::~CompileBox() {
  listener_.request_stop();
  if (process_ != nullptr) process_->Kill(SIGKILL);
  if (listener_.joinable()) listener_.join();
  process_.reset();
  if (!root_.empty()) rmdir(root_.c_str());
}

void CompileBox::Listen(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const auto m = channel_->Receive(absl::Now() + absl::Seconds(1));
    if (absl::IsDeadlineExceeded(m.status())) continue;
    MutexLock lock(mu_);
    if (m.ok()) {
      codes_[m->body.value("id", int64_t{-1})] = m->body.value("code", 0);
    } else {
      gone_ = true;
    }
    changed_.NotifyAll();
    if (gone_) return;
  }
}

absl::StatusOr<CompileBox::Output> CompileBox::Run(nlohmann::json job,
                                                   const std::string& source,
                                                   int object_fd) {
  const OwnedFd in = Memfd("source"), log = Memfd("log");
  if (in.get() < 0 || log.get() < 0 ||
      pwrite(in.get(), source.data(), source.size(), 0) !=
          static_cast<ssize_t>(source.size())) {
    return absl::UnavailableError(absl::StrCat("memfd: ", strerror(errno)));
  }
  int64_t id;
  {
    MutexLock lock(mu_);
    id = next_id_++;
  }
  job["id"] = id;
  std::vector<int> fds = {in.get(), log.get()};
  if (object_fd >= 0) fds.push_back(object_fd);
  {
    MutexLock lock(send_mu_);
    DICE_RETURN_IF_ERROR(channel_->Send(job, fds)) << "compile box";
  }
  const absl::Time deadline =
      absl::Now() + absl::Seconds(job.value("seconds", 20.0) + 30);
  MutexLock lock(mu_);
  while (codes_.find(id) == codes_.end() && !gone_ && absl::Now() < deadline) {
    Clock::Real().Await(changed_, mu_, deadline);
  }
  const auto it = codes_.find(id);
  if (it == codes_.end()) return absl::UnavailableError("compile box is gone");
  const int code = it->second;
  codes_.erase(it);
  Output out;
  out.accepted = code == kBoxAccepted;
  out.crashed = code == kBoxTimeout || code == kBoxDied;
  out.log = ReadLog(log.get());
  if (code == kBoxTimeout) out.log += "\nthe compiler ran out of time";
  if (code == kBoxDied) out.log += "\nthe compiler died or ran out of memory";
  return out;
}

absl::StatusOr<CompileBox::Output> CompileBox::Nvrtc(
    const std::string& source, const std::string& name,
    const std::vector<std::string>& options, double seconds) {
  return Run({{"op", "nvrtc"},
              {"args", options},
              {"name", name},
              {"seconds", seconds}},
             source, -1);
}

absl::StatusOr<CompileBox::Output> CompileBox::Gxx(
    const std::string& source, const std::vector<std::string>& args,
    const std::string& object_path, double seconds) {
  const std::string tmp = absl::StrCat(object_path, ".tmp.", getpid(), ".",
                                       absl::ToUnixNanos(absl::Now()));
  Output out;
  {
    const OwnedFd object(
        open(tmp.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755));
    if (object.get() < 0) {
      return absl::UnavailableError(absl::StrCat(tmp, ": ", strerror(errno)));
    }
    DICE_ASSIGN_OR_RETURN(
        out, Run({{"op", "gxx"}, {"args", args}, {"seconds", seconds}}, source,
                 object.get()));
  }
  if (out.accepted && rename(tmp.c_str(), object_path.c_str()) != 0) {
    return absl::UnavailableError(
        absl::StrCat(object_path, ": ", strerror(errno)));
  }
  if (!out.accepted) unlink(tmp.c_str());
  return out;
}

}  // namespace dice
