#include "common/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace dice {
namespace {

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& env) {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const std::string name = entry.substr(0, entry.find('='));
    if (std::none_of(env.begin(), env.end(),
                     [&](const auto& kv) { return kv.first == name; })) {
      out.push_back(entry);
    }
  }
  for (const auto& [k, v] : env) out.push_back(absl::StrCat(k, "=", v));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string ExitStatus::ToString() const {
  if (signal != 0) {
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", code);
}

absl::StatusOr<std::unique_ptr<Process>> Process::Spawn(
    const Options& options) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [fd, path] :
       {std::pair{1, options.stdout_path}, {2, options.stderr_path}}) {
    if (!path.empty()) {
      posix_spawn_file_actions_addopen(&actions, fd, path.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    }
  }
  // dup2 onto itself clears close-on-exec, which is what we want.
  for (const auto& [from, to] : options.fds) {
    posix_spawn_file_actions_adddup2(&actions, from, to);
  }
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setsigdefault(&attr, &defaults);
  posix_spawnattr_setpgroup(&attr, 0);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                      POSIX_SPAWN_SETSIGDEF |
                                      POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> env = MergedEnvironment(options.env);
  pid_t pid = 0;
  const int rc = posix_spawnp(&pid, argv[0].c_str(), &actions, &attr,
                              Pointers(argv).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  if (rc != 0) {
    const std::string text =
        absl::StrCat("starting ", argv[0], ": ", std::strerror(rc));
    return rc == ENOENT ? absl::NotFoundError(text)
                        : absl::InternalError(text);
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return std::unique_ptr<Process>(new Process(pid, pidfd));
}

Process::~Process() {
  if (Running()) {
    kill(-pid_, SIGKILL);
    (void)Wait();
  }
  kill(-pid_, SIGKILL);  // what the child left behind in its group
  if (pidfd_ >= 0) close(pidfd_);
}

absl::StatusOr<ExitStatus> Process::Wait(absl::Time deadline) {
  if (reaped_) return status_;
  while (deadline != absl::InfiniteFuture()) {
    const absl::Duration left =
        std::clamp(deadline - absl::Now(), absl::ZeroDuration(),
                   absl::Hours(1));
    pollfd p = {.fd = pidfd_, .events = POLLIN, .revents = 0};
    const int ms = static_cast<int>(
        absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
    const int n = poll(&p, 1, ms);
    if (n > 0) break;
    if (n == 0 && absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("process ", pid_, " is still running"));
    }
  }
  int raw = 0;
  while (waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (WIFEXITED(raw)) status_.code = WEXITSTATUS(raw);
  if (WIFSIGNALED(raw)) status_.signal = WTERMSIG(raw);
  return status_;
}

bool Process::Running() { return !reaped_ && !Wait(absl::InfinitePast()).ok(); }

void Process::Kill(int signal) {
  if (!reaped_) kill(-pid_, signal);
}

}  // namespace dice
