#include "evaluator/sandbox/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "evaluator/sandbox/seccomp_filter.h"

namespace {

struct State {
  int level = 0;
  std::string root;
  std::vector<sock_filter> filter, program_filter;
};
State& Jail() {
  static auto* state = new State;
  return *state;
}

bool Fail(char* error, int size, const char* what, const char* path = "") {
  snprintf(error, size, "%s %s: %s", what, path, strerror(errno));
  return false;
}

bool MakePath(const std::string& path) {
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i == path.size() || path[i] == '/') {
      if (mkdir(path.substr(0, i).c_str(), 0755) != 0 && errno != EEXIST) {
        return false;
      }
    }
  }
  return true;
}

// A read-only bind of `path` at the same name below the root; symbolic links
// are copied as links.
bool Bind(const std::string& path, char* error, int size) {
  const std::string target = Jail().root + path;
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return true;  // not on this machine
  if (S_ISLNK(st.st_mode)) {
    char link[4096];
    const ssize_t n = readlink(path.c_str(), link, sizeof(link) - 1);
    if (n < 0) return Fail(error, size, "readlink", path.c_str());
    link[n] = '\0';
    (void)MakePath(target.substr(0, target.rfind('/')));
    if (symlink(link, target.c_str()) != 0 && errno != EEXIST) {
      return Fail(error, size, "symlink", target.c_str());
    }
    return true;
  }
  if (S_ISDIR(st.st_mode)) {
    if (!MakePath(target)) return Fail(error, size, "mkdir", target.c_str());
  } else {
    (void)MakePath(target.substr(0, target.rfind('/')));
    const int fd = open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return Fail(error, size, "create", target.c_str());
    close(fd);
  }
  if (mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr)) {
    return Fail(error, size, "bind", path.c_str());
  }
  const bool device = path.rfind("/dev/", 0) == 0;
  const unsigned long flags =
      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | (device ? 0 : MS_NODEV);
  if (!device && mount(nullptr, target.c_str(), nullptr, flags, nullptr)) {
    return Fail(error, size, "remount read-only", target.c_str());
  }
  return true;
}

// The tree that every child pivots into. The zygote gets a mount namespace of
// its own, so the host never sees it.
bool BuildTree(const char* paths, char* error, int size) {
  if (unshare(CLONE_NEWNS) != 0) return Fail(error, size, "unshare");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return Fail(error, size, "make / private");
  }
  const std::string& root = Jail().root;
  if (mount("dice", root.c_str(), "tmpfs", MS_NOSUID, "size=1m,mode=755")) {
    return Fail(error, size, "tmpfs at", root.c_str());
  }
  for (const char* dir : {"/proc", "/tmp", "/dev", "/.old"}) {
    if (!MakePath(root + dir)) return Fail(error, size, "mkdir", dir);
  }
  for (const char* dev : {"/dev/null", "/dev/zero", "/dev/urandom"}) {
    if (!Bind(dev, error, size)) return false;
  }
  std::string list = paths;
  size_t begin = 0;
  while (begin < list.size()) {
    size_t end = list.find('\n', begin);
    if (end == std::string::npos) end = list.size();
    if (end > begin && !Bind(list.substr(begin, end - begin), error, size)) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

// Runs in the child. Each step must succeed: a jail with a hole is no jail.
const char* EnterTree() {
  const std::string& root = Jail().root;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) {
    return "make / private";
  }
  // pivot_root wants a mount point that is not the current root.
  if (mount(root.c_str(), root.c_str(), nullptr, MS_BIND | MS_REC, nullptr)) {
    return "bind root";
  }
  if (chdir(root.c_str())) return "chdir root";
  if (mount("tmp", "tmp", "tmpfs", MS_NOSUID | MS_NODEV,
            "size=64m,nr_inodes=4k,mode=1777")) {
    return "mount /tmp";
  }
  if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            nullptr)) {
    return "mount /proc";
  }
  if (syscall(SYS_pivot_root, ".", ".old")) return "pivot_root";
  if (chdir("/")) return "chdir /";
  if (umount2("/.old", MNT_DETACH)) return "unmount the host";
  if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID,
            nullptr)) {
    return "remount / read-only";
  }
  return nullptr;
}

const char* LimitAndDrop(const dice_jail_limits& l) {
  const auto limit = [](int what, int64_t value) {
    const rlimit r = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
    return setrlimit(static_cast<__rlimit_resource>(what), &r) == 0;
  };
  if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_FSIZE, l.file_bytes) ||
      !limit(RLIMIT_NOFILE, l.open_files) ||
      !limit(RLIMIT_CPU, l.cpu_seconds) || !limit(RLIMIT_DATA, l.data_bytes)) {
    return "rlimits";
  }
  if (Jail().level == DICE_JAIL_NONE) return nullptr;
  if (geteuid() == 0) {
    if (setgroups(0, nullptr) || setresgid(l.uid, l.uid, l.uid) ||
        setresuid(l.uid, l.uid, l.uid)) {
      return "change uid";
    }
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return "no_new_privs";
  std::vector<sock_filter>& filter =
      l.allow_programs ? Jail().program_filter : Jail().filter;
  const sock_fprog program = {static_cast<unsigned short>(filter.size()),
                              filter.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return "seccomp";
  return nullptr;
}

[[noreturn]] void ChildDies(const char* step) {
  dprintf(STDERR_FILENO, "jail: %s: %s\n", step, strerror(errno));
  _exit(125);
}

}  // namespace

int dice_jail_prepare(int level, const char* root, const char* paths,
                      char* error, int error_size) {
  Jail().root = root;
  Jail().level = level;
  error[0] = '\0';
  if (level == DICE_JAIL_FULL && !BuildTree(paths, error, error_size)) {
    Jail().level = DICE_JAIL_PARTIAL;
  }
  if (Jail().level >= DICE_JAIL_PARTIAL) {
    Jail().filter = dice::BuildSeccompFilter(/*allow_programs=*/false);
    Jail().program_filter = dice::BuildSeccompFilter(/*allow_programs=*/true);
    if (Jail().filter.empty() || Jail().program_filter.empty()) {
      Fail(error, error_size, "building the seccomp filter");
      return -1;
    }
  }
  return Jail().level;
}

pid_t dice_jail_fork(const dice_jail_limits* limits, int* pidfd, char* error,
                     int error_size) {
  const bool full = Jail().level == DICE_JAIL_FULL;
  const unsigned long flags =
      SIGCHLD | CLONE_PIDFD |
      (full ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                  CLONE_NEWUTS | CLONE_NEWCGROUP
            : 0);
  const pid_t pid =
      static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, pidfd, nullptr, 0));
  if (pid < 0) {
    Fail(error, error_size, "clone");
    return -1;
  }
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  if (full) {
    if (const char* step = EnterTree()) ChildDies(step);
  }
  if (const char* step = LimitAndDrop(*limits)) ChildDies(step);
  return 0;
}
