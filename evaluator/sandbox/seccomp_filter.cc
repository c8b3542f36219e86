#include "evaluator/sandbox/seccomp_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dice {
namespace {

// Nothing that a kernel, its harness, torch or libc needs.
constexpr int kPrograms[] = {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(execve),
                             SCMP_SYS(execveat)};
constexpr int kFatal[] = {SCMP_SYS(ptrace),
                          SCMP_SYS(process_vm_readv),
                          SCMP_SYS(process_vm_writev),
                          SCMP_SYS(mount),
                          SCMP_SYS(umount2),
                          SCMP_SYS(pivot_root),
                          SCMP_SYS(chroot),
                          SCMP_SYS(setns),
                          SCMP_SYS(unshare),
                          SCMP_SYS(bpf),
                          SCMP_SYS(perf_event_open),
                          SCMP_SYS(userfaultfd),
                          SCMP_SYS(keyctl),
                          SCMP_SYS(add_key),
                          SCMP_SYS(request_key),
                          SCMP_SYS(init_module),
                          SCMP_SYS(finit_module),
                          SCMP_SYS(delete_module),
                          SCMP_SYS(kexec_load),
                          SCMP_SYS(reboot),
                          SCMP_SYS(swapon),
                          SCMP_SYS(swapoff),
                          SCMP_SYS(open_by_handle_at),
                          SCMP_SYS(name_to_handle_at),
                          SCMP_SYS(settimeofday),
                          SCMP_SYS(clock_settime),
                          SCMP_SYS(acct),
                          SCMP_SYS(quotactl),
                          SCMP_SYS(iopl),
                          SCMP_SYS(ioperm),
                          SCMP_SYS(io_uring_setup),
                          SCMP_SYS(io_uring_enter),
                          SCMP_SYS(pidfd_getfd),
                          SCMP_SYS(move_mount),
                          SCMP_SYS(open_tree),
                          SCMP_SYS(fsopen),
                          SCMP_SYS(fsmount),
                          SCMP_SYS(kcmp),
                          SCMP_SYS(syslog),
                          SCMP_SYS(personality),
                          SCMP_SYS(sethostname)};

bool AddRules(scmp_filter_ctx ctx, bool allow_programs) {
  for (const int call : kFatal) {
    if (call < 0) continue;  // not on this architecture
    if (seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, call, 0)) return false;
  }
  if (!allow_programs) {
    for (const int call : kPrograms) {
      if (seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, call, 0)) return false;
    }
  }
  // glibc falls back to clone, whose flags a filter can read.
  if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0)) {
    return false;
  }
  if (!allow_programs &&
      seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone), 1,
                       SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0))) {
    return false;
  }
  return seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, SCMP_SYS(socket), 1,
                          SCMP_A0(SCMP_CMP_NE, AF_UNIX)) == 0;
}

}  // namespace

std::vector<sock_filter> BuildSeccompFilter(bool allow_programs) {
  std::vector<sock_filter> out;
  scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
  if (ctx == nullptr) return out;
  const int fd = memfd_create("seccomp", MFD_CLOEXEC);
  if (fd >= 0 && AddRules(ctx, allow_programs) && seccomp_export_bpf(ctx, fd) == 0) {
    const off_t bytes = lseek(fd, 0, SEEK_END);
    out.resize(bytes / sizeof(sock_filter));
    if (pread(fd, out.data(), bytes, 0) != bytes) out.clear();
  }
  if (fd >= 0) close(fd);
  seccomp_release(ctx);
  return out;
}

}  // namespace dice
