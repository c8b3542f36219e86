#include "evaluator/sandbox/jail.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "evaluator/sandbox/jail_state.h"
#include "evaluator/sandbox/seccomp_filter.h"

namespace dice {

JailState& Jail() {
  static auto* state = new JailState;
  return *state;
}

bool JailFail(char* error, int size, const char* what, const char* path) {
  snprintf(error, size, "%s %s: %s", what, path, strerror(errno));
  return false;
}

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

[[noreturn]] void ChildDies(const char* step) {
  dprintf(STDERR_FILENO, "jail: %s: %s\n", step, strerror(errno));
  _exit(125);
}

}  // namespace
}  // namespace dice

using dice::Jail;

int dice_jail_prepare(int level, const char* root, const char* paths,
                      char* error, int error_size) {
  Jail().root = root;
  Jail().level = level;
  Jail().readable = dice::Lines(paths);
  error[0] = '\0';
  if (level == DICE_JAIL_FULL && !dice::BuildTree(error, error_size)) {
    Jail().level = DICE_JAIL_PARTIAL;
  }
  if (Jail().level < DICE_JAIL_PARTIAL) return Jail().level;
  for (const int role : {DICE_JAIL_RUNNER, DICE_JAIL_ORACLE}) {
    Jail().filters[role] = dice::BuildSeccompFilter(role);
    if (Jail().filters[role].empty()) {
      dice::JailFail(error, error_size, "building the seccomp filter");
      return -1;
    }
  }
  return Jail().level;
}

int dice_jail_features(void) { return dice::HasLandlock() ? 1 : 0; }

pid_t dice_jail_fork(const dice_jail_limits* limits, int* pidfd, char* error,
                     int error_size) {
  const bool full = Jail().level == DICE_JAIL_FULL;
  unsigned long flags =
      SIGCHLD | CLONE_PIDFD |
      (full ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                  CLONE_NEWUTS | CLONE_NEWCGROUP
            : 0);
  // A raw clone, since fork() cannot make namespaces. With one thread, what
  // glibc adds is locks that nobody holds, and the thread id stored here.
  void* tid = nullptr;
  if (prctl(PR_GET_TID_ADDRESS, &tid) == 0 && tid != nullptr) {
    flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  }
#if defined(__aarch64__)
  const long pid = syscall(SYS_clone, flags, nullptr, pidfd, nullptr, tid);
#else
  const long pid = syscall(SYS_clone, flags, nullptr, pidfd, tid, nullptr);
#endif
  if (pid < 0) {
    dice::JailFail(error, error_size, "clone");
    return -1;
  }
  if (pid > 0) return static_cast<pid_t>(pid);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  if (full) {
    if (const char* step = dice::EnterTree()) dice::ChildDies(step);
  }
  if (const char* step = dice::LimitAndDrop(*limits)) dice::ChildDies(step);
  return 0;
}
