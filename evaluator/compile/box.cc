#include "evaluator/compile/box.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"

namespace dice {

absl::StatusOr<std::unique_ptr<Box>> Box::Create(const Options& options) {
  if (access(options.executable.c_str(), X_OK) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("no compile box at ", options.executable,
                     "; build the target dice_compile_box"));
  if (access(options.nvrtc.c_str(), R_OK) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("no NVRTC at ", options.nvrtc,
                     "; it comes with the torch wheel (nvidia-cuda-nvrtc)"));
  auto box = std::unique_ptr<Box>(new Box(options));
  MutexLock lock(box->mu_);
  DICE_RETURN_IF_ERROR(box->Start());
  return box;
}

absl::Status Box::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::InternalError("socketpair failed");
  Process::Options p;
  p.argv = {options_.executable,         "--fd",    "3",           "--jobs",
            absl::StrCat(options_.jobs), "--nvrtc", options_.nvrtc};
  for (const std::string& path : options_.readable) {
    p.argv.push_back("--readable");
    p.argv.push_back(path);
  }
  p.fds = {{ends[1], 3}};
  auto process = Process::Spawn(p);
  close(ends[1]);
  if (!process.ok()) {
    close(ends[0]);
    return process.status();
  }
  process_ = std::move(*process);
  fd_ = ends[0];
  dead_ = false;
  reader_ = StartThread("compile-box",
                        [this, fd = fd_](std::stop_token) { Read(fd); });
  return absl::OkStatus();
}

Box::~Box() { Stop(); }

void Box::Stop() {
  {
    MutexLock lock(mu_);
    if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  }
  if (reader_.joinable()) reader_.join();
  MutexLock lock(mu_);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::StatusOr<BoxResult> Box::Run(BoxJob job) {
  Waiter waiter;
  int fd;
  {
    MutexLock lock(mu_);
    if (dead_) {
      if (fd_ >= 0) close(fd_);
      fd_ = -1;
      DICE_RETURN_IF_ERROR(Start()) << "starting the compile box again";
    }
    job.id = next_id_++;
    waiters_[job.id] = &waiter;
    fd = fd_;
  }
  const std::string frame = Encode(job);
  {
    MutexLock lock(write_mu_);
    for (size_t at = 0; at < frame.size();) {
      const ssize_t n =
          send(fd, frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno != EINTR) break;  // the reader will see it too
      if (n > 0) at += static_cast<size_t>(n);
    }
  }
  MutexLock lock(mu_);
  while (!waiter.done) {
    if (dead_) {
      waiters_.erase(job.id);
      return absl::UnavailableError("the compile box died");
    }
    changed_.Wait(mu_);
  }
  return std::move(waiter.result);
}

void Box::Read(int fd) {
  std::string buffer, frame;
  char bytes[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    buffer.append(bytes, static_cast<size_t>(n));
    while (TakeFrame(&buffer, &frame)) {
      BoxResult result = DecodeResult(frame);
      MutexLock lock(mu_);
      const auto it = waiters_.find(result.id);
      if (it == waiters_.end()) continue;
      it->second->done = true;
      it->second->result = std::move(result);
      waiters_.erase(it);
      changed_.NotifyAll();
    }
  }
  MutexLock lock(mu_);
  dead_ = true;
  changed_.NotifyAll();
}

}  // namespace dice
