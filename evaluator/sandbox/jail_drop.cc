#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "evaluator/sandbox/jail_state.h"

namespace dice {
namespace {

bool Limit(int what, int64_t value) {
  const rlimit r = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(static_cast<__rlimit_resource>(what), &r) == 0;
}

// No way back: neither a capability now, nor one gained by a later exec.
const char* DropRights(int32_t uid) {
  if (geteuid() == 0) {
    for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) {
      prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    }
    if (!Jail().one_uid &&
        (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 ||
         setresuid(uid, uid, uid) != 0)) {
      return "change uid";
    }
  }
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3,
                                     .pid = 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return "drop capabilities";
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? "no_new_privs" : nullptr;
}

}  // namespace

const char* LimitAndDrop(const dice_jail_limits& l) {
  if (!Limit(RLIMIT_CORE, 0) || !Limit(RLIMIT_FSIZE, l.file_bytes) ||
      !Limit(RLIMIT_NOFILE, l.open_files) ||
      !Limit(RLIMIT_CPU, l.cpu_seconds) || !Limit(RLIMIT_DATA, l.data_bytes) ||
      !Limit(RLIMIT_MEMLOCK, 0)) {
    return "rlimits";
  }
  // Counted per user id: a bound on threads only where each child has its own.
  const bool own_uid = geteuid() == 0 && !Jail().one_uid;
  if (own_uid && !Limit(RLIMIT_NPROC, l.threads)) return "rlimits";
  if (Jail().level == DICE_JAIL_NONE) return nullptr;
  if (const char* step = DropRights(l.uid)) return step;
  // A change of uid cleared it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (const char* step = RestrictFiles()) return step;
  std::vector<sock_filter>& filter = Jail().filters[l.role];
  const sock_fprog program = {static_cast<unsigned short>(filter.size()),
                              filter.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return "seccomp";
  return nullptr;
}

}  // namespace dice
