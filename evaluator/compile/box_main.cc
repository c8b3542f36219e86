// dice-compile-box: single-threaded parent of jailed compilers. NVRTC is loaded
// once, before the first fork, so a device compile costs no start-up.
//
// Usage: dice-compile-box LEVEL ROOT VISIBLE_PATHS SITE_PACKAGES
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/channel.h"
#include "evaluator/compile/box_protocol.h"
#include "evaluator/compile/nvrtc.h"
#include "evaluator/sandbox/jail.h"

namespace dice {
namespace {

constexpr char kObject[] = "/tmp/out.so";

bool CopyFile(int from, int to) {
  char buffer[1 << 16];
  ssize_t n;
  while ((n = read(from, buffer, sizeof(buffer))) > 0) {
    for (ssize_t done = 0; done < n;) {
      const ssize_t w = write(to, buffer + done, n - done);
      if (w <= 0) return false;
      done += w;
    }
  }
  return n == 0;
}

std::string ReadAll(int fd) {
  std::string out;
  char buffer[1 << 16];
  off_t at = 0;
  ssize_t n;
  while ((n = pread(fd, buffer, sizeof(buffer), at)) > 0) {
    out.append(buffer, n);
    at += n;
  }
  return out;
}

// In the jailed child; the return value is its exit code.
int RunNvrtc(const Nvrtc& nvrtc, const ChannelMessage& job) {
  const auto args = job.body["args"].get<std::vector<std::string>>();
  const Nvrtc::Result r = nvrtc.Compile(ReadAll(job.fds[0].get()),
                                        job.body.value("name", "candidate.cu"),
                                        args);
  if (write(job.fds[1].get(), r.log.data(), r.log.size()) < 0) return 2;
  return r.ok ? kBoxAccepted : kBoxRefused;
}

// In the jailed child, which is init of its pid namespace: starts g++, then
// hands the object out.
int RunGxx(const ChannelMessage& job) {
  std::vector<std::string> args = {"g++"};
  for (const auto& a : job.body["args"]) args.push_back(a.get<std::string>());
  args.insert(args.end(), {"-o", kObject});
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    lseek(job.fds[0].get(), 0, SEEK_SET);
    dup2(job.fds[0].get(), 0);
    dup2(job.fds[1].get(), 1);
    dup2(job.fds[1].get(), 2);
    const char* env[] = {"PATH=/usr/bin:/bin", "TMPDIR=/tmp", "LC_ALL=C",
                         nullptr};
    if (chdir("/tmp") == 0) {
      execve("/usr/bin/g++", argv.data(), const_cast<char**>(env));
    }
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? kBoxRefused : 2;
  }
  const int fd = open(kObject, O_RDONLY | O_CLOEXEC);
  return fd >= 0 && CopyFile(fd, job.fds[2].get()) ? kBoxAccepted : 2;
}

struct Running {
  pid_t pid;
  nlohmann::json id;
  absl::Time deadline;
};

class Box {
 public:
  Box(Channel channel, const Nvrtc& nvrtc)
      : channel_(std::move(channel)), nvrtc_(nvrtc) {}

  void Serve() {
    while (true) {
      std::vector<pollfd> polled = {{channel_.fd(), POLLIN, 0}};
      absl::Time next = absl::Now() + absl::Seconds(3600);
      for (const auto& [fd, r] : running_) {
        polled.push_back({fd, POLLIN, 0});
        next = std::min(next, r.deadline);
      }
      const auto ms = absl::ToInt64Milliseconds(next - absl::Now()) + 1;
      (void)poll(polled.data(), polled.size(),
                 static_cast<int>(std::max<int64_t>(0, ms)));
      for (size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0) Reap(polled[i].fd);
      }
      KillLate();
      if (polled[0].revents != 0 && !Accept()) return;
    }
  }

 private:
  bool Accept() {
    auto job = channel_.Receive(absl::Now() + absl::Seconds(5));
    if (!job.ok()) return false;  // our client is gone
    const bool gxx = job->body.value("op", "") == "gxx";
    const double seconds = job->body.value("seconds", 20.0);
    const dice_jail_limits limits = {
        .data_bytes = int64_t{3} << 30,
        .file_bytes = int64_t{256} << 20,
        .open_files = 64,
        .cpu_seconds = static_cast<int64_t>(seconds) + 1,
        .uid = 65534,
        .allow_programs = gxx};
    int pidfd = -1;
    char error[256];
    const pid_t pid = dice_jail_fork(&limits, &pidfd, error, sizeof(error));
    if (pid == 0) _exit(gxx ? RunGxx(*job) : RunNvrtc(nvrtc_, *job));
    if (pid < 0) {
      (void)channel_.Send({{"id", job->body["id"]}, {"code", kBoxDied}});
      return true;
    }
    running_[pidfd] = {pid, job->body["id"],
                       absl::Now() + absl::Seconds(seconds)};
    return true;
  }

  void Reap(int pidfd) {
    const Running r = running_[pidfd];
    running_.erase(pidfd);
    close(pidfd);
    int status = 0;
    waitpid(r.pid, &status, 0);
    int code = kBoxDied;
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) code = WEXITSTATUS(status);
    if (absl::Now() >= r.deadline) code = kBoxTimeout;
    (void)channel_.Send({{"id", r.id}, {"code", code}});
  }

  void KillLate() {
    for (const auto& [fd, r] : running_) {
      if (absl::Now() >= r.deadline) kill(r.pid, SIGKILL);
    }
  }

  Channel channel_;
  const Nvrtc& nvrtc_;
  std::map<int, Running> running_;  // by pidfd
};

int Main(int argc, char** argv) {
  if (argc != 5) return 2;
  Channel channel{OwnedFd(3)};
  char error[512] = "";
  const auto places = FindNvrtc(argv[4]);
  auto nvrtc = places.ok() ? Nvrtc::Load(*places)
                           : absl::StatusOr<std::unique_ptr<Nvrtc>>(
                                 places.status());
  if (!nvrtc.ok()) {
    (void)channel.Send(
        {{"ready", -1}, {"text", std::string(nvrtc.status().message())}});
    return 3;
  }
  // The first compile loads NVRTC's built-in headers; children inherit that.
  (void)(*nvrtc)->Compile("__global__ void warm(float* x) { *x = 1; }", "w",
                          {"--gpu-architecture=compute_90"});
  const int level = dice_jail_prepare(std::atoi(argv[1]), argv[2], argv[3],
                                      error, sizeof(error));
  (void)channel.Send({{"ready", level}, {"text", std::string(error)}});
  if (level < 0) return 3;
  Box(std::move(channel), **nvrtc).Serve();
  return 0;
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) { return dice::Main(argc, argv); }
