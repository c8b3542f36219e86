#include "evaluator/compile/box_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "evaluator/compile/confine.h"

namespace dice {
namespace {

constexpr size_t kLogLimit = 64 << 10;

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// A file in memory that holds the job's input.
int InputFile(const std::string& input) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  WriteAll(fd, input);
  lseek(fd, 0, SEEK_SET);
  return fd;
}

// Pages this process maps now, in bytes: a child inherits them.
uint64_t MappedBytes() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return uint64_t{1} << 30;
  char text[64] = {};
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  return n > 0 ? std::strtoull(text, nullptr, 10) * 4096 : 0;
}

}  // namespace

void BoxServer::Run() {
  for (;;) {
    while (!waiting_.empty() &&
           static_cast<int>(running_.size()) < options_.max_running) {
      Start(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    std::vector<pollfd> fds{{options_.fd, POLLIN, 0}};
    for (const Running& r : running_) fds.push_back({r.pipe, POLLIN, 0});
    poll(fds.data(), fds.size(), PollTimeoutMs());
    if (fds[0].revents != 0 && !ReadJobs()) break;
    for (size_t i = 0; i + 1 < fds.size(); ++i)
      if (fds[i + 1].revents != 0) ReadLog(&running_[i]);
    const double now = Now();
    for (Running& r : running_) {
      if (r.killed || now < r.deadline) continue;
      kill(-r.pid, SIGKILL);
      r.killed = true;
    }
    Reap();
  }
  for (const Running& r : running_) kill(-r.pid, SIGKILL);
}

int BoxServer::PollTimeoutMs() const {
  double soonest = -1;
  for (const Running& r : running_)
    if (soonest < 0 || r.deadline < soonest) soonest = r.deadline;
  if (soonest < 0) return -1;
  return std::max(1, static_cast<int>((soonest - Now()) * 1e3));
}

bool BoxServer::ReadJobs() {
  char bytes[1 << 16];
  const ssize_t n = read(options_.fd, bytes, sizeof(bytes));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  std::string frame;
  while (TakeFrame(&buffer_, &frame)) waiting_.push_back(DecodeJob(frame));
  return true;
}

void BoxServer::Start(BoxJob job) {
  Running r;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    r.result = {job.id, BoxResult::End::kExit, kNvrtcBroken, 0, "pipe failed"};
    return Send(r.result);
  }
  r.deadline = Now() + job.wall_s;
  r.pid = fork();
  if (r.pid == 0) Child(job, ends[1]);
  close(ends[1]);
  if (r.pid < 0) {
    close(ends[0]);
    r.result = {job.id, BoxResult::End::kExit, kNvrtcBroken, 0, "fork failed"};
    return Send(r.result);
  }
  setpgid(r.pid, r.pid);
  r.pipe = ends[0];
  r.job = std::move(job);
  r.job.input.clear();
  running_.push_back(std::move(r));
}

void BoxServer::Child(const BoxJob& job, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int input = InputFile(job.input);
  dup2(input, 0);
  dup2(output, 1);
  dup2(output, 2);
  close_range(3, ~0u, 0);
  const uint64_t memory = uint64_t{job.memory_mib} << 20;
  if (job.kind == BoxJob::Kind::kNvrtc) {
    Confine(job.cpu_s, MappedBytes() + memory, options_.readable, job.folder);
    std::string log;
    const unsigned code = nvrtc_->Compile(job.input, job.args, &log);
    WriteAll(1, log);
    _exit(static_cast<int>(code));
  }
  if (!job.folder.empty()) {
    if (chdir(job.folder.c_str()) != 0) _exit(127);
    setenv("TMPDIR", job.folder.c_str(), 1);
  }
  setenv("LC_ALL", "C", 1);
  Confine(job.cpu_s, memory, options_.readable, job.folder);
  std::vector<char*> argv;
  for (const std::string& a : job.args)
    argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  WriteAll(1, "cannot run " + job.args[0]);
  _exit(127);
}

void BoxServer::ReadLog(Running* r) {
  char bytes[1 << 14];
  const ssize_t n = read(r->pipe, bytes, sizeof(bytes));
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    close(r->pipe);
    r->pipe = -1;
    return;
  }
  const size_t room = kLogLimit - std::min(kLogLimit, r->result.log.size());
  r->result.log.append(bytes, std::min(room, static_cast<size_t>(n)));
}

// A job is over when its pipe is closed by all its processes.
void BoxServer::Reap() {
  for (size_t i = 0; i < running_.size();) {
    Running& r = running_[i];
    if (r.pipe >= 0) {
      ++i;
      continue;
    }
    int status = 0;
    rusage usage{};
    if (wait4(r.pid, &status, 0, &usage) == r.pid) {
      r.result.id = r.job.id;
      r.result.end = r.killed              ? BoxResult::End::kTimeout
                     : WIFSIGNALED(status) ? BoxResult::End::kSignal
                                           : BoxResult::End::kExit;
      r.result.code = static_cast<uint32_t>(
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
      r.result.cpu_s =
          static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
          static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) *
              1e-6;
      Send(r.result);
    }
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void BoxServer::Send(const BoxResult& result) {
  WriteAll(options_.fd, Encode(result));
}

}  // namespace dice
