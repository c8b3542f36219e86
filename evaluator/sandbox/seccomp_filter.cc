#include "evaluator/sandbox/seccomp_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "evaluator/sandbox/jail.h"

namespace dice {
namespace {

constexpr int kAllowed[] = {
    // files
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev),
    SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(preadv), SCMP_SYS(pwritev),
    SCMP_SYS(preadv2), SCMP_SYS(pwritev2), SCMP_SYS(copy_file_range),
    SCMP_SYS(sendfile), SCMP_SYS(fadvise64), SCMP_SYS(readahead),
    SCMP_SYS(truncate), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(close_range),
    SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat),
    SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(fcntl), SCMP_SYS(dup),
    SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe), SCMP_SYS(pipe2),
    SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(fsync),
    SCMP_SYS(fdatasync), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir),
    SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat),
    SCMP_SYS(renameat2), SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(umask),
    SCMP_SYS(chdir), SCMP_SYS(getcwd), SCMP_SYS(flock), SCMP_SYS(statfs),
    SCMP_SYS(fstatfs), SCMP_SYS(ioctl),
    // memory
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect),
    SCMP_SYS(madvise), SCMP_SYS(msync), SCMP_SYS(brk), SCMP_SYS(mincore),
    SCMP_SYS(membarrier),
    // threads and signals of one's own
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list),
    SCMP_SYS(rseq), SCMP_SYS(set_tid_address), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigsuspend), SCMP_SYS(pause),
    SCMP_SYS(alarm), SCMP_SYS(setitimer), SCMP_SYS(getitimer),
    SCMP_SYS(sigaltstack), SCMP_SYS(tgkill), SCMP_SYS(tkill), SCMP_SYS(kill),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    SCMP_SYS(arch_prctl), SCMP_SYS(wait4), SCMP_SYS(waitid),
    // who and when am I
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getresuid),
    SCMP_SYS(getresgid), SCMP_SYS(getpgrp), SCMP_SYS(getpgid), SCMP_SYS(getsid),
    SCMP_SYS(getgroups), SCMP_SYS(uname), SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(times), SCMP_SYS(getrusage), SCMP_SYS(prlimit64),
    SCMP_SYS(getrlimit), SCMP_SYS(sysinfo), SCMP_SYS(getpriority),
    SCMP_SYS(getcpu), SCMP_SYS(prctl),
    // waiting, and the socket to the supervisor
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(eventfd2), SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt), SCMP_SYS(getsockname), SCMP_SYS(getpeername)};

constexpr int kFatal[] = {SCMP_SYS(fork),
                          SCMP_SYS(vfork),
                          SCMP_SYS(execve),
                          SCMP_SYS(execveat),
                          SCMP_SYS(ptrace),
                          SCMP_SYS(process_vm_readv),
                          SCMP_SYS(process_vm_writev),
                          SCMP_SYS(mount),
                          SCMP_SYS(umount2),
                          SCMP_SYS(pivot_root),
                          SCMP_SYS(chroot),
                          SCMP_SYS(open_tree),
                          SCMP_SYS(move_mount),
                          SCMP_SYS(fsopen),
                          SCMP_SYS(unshare),
                          SCMP_SYS(setns),
                          SCMP_SYS(bpf),
                          SCMP_SYS(perf_event_open),
                          SCMP_SYS(userfaultfd),
                          SCMP_SYS(keyctl),
                          SCMP_SYS(add_key),
                          SCMP_SYS(request_key),
                          SCMP_SYS(io_uring_setup),
                          SCMP_SYS(init_module),
                          SCMP_SYS(finit_module),
                          SCMP_SYS(kexec_load),
                          SCMP_SYS(reboot),
                          SCMP_SYS(open_by_handle_at),
                          SCMP_SYS(pidfd_getfd),
                          SCMP_SYS(connect),
                          SCMP_SYS(bind),
                          SCMP_SYS(listen),
                          SCMP_SYS(accept)};

bool AddRules(scmp_filter_ctx ctx, int role) {
  bool ok = true;
  const auto add = [&](uint32_t action, int call) {
    // A negative number: no such call on this architecture.
    if (ok && call >= 0) ok = seccomp_rule_add(ctx, action, call, 0) == 0;
  };
  const auto add_if = [&](uint32_t action, int call, scmp_arg_cmp condition) {
    if (ok) ok = seccomp_rule_add(ctx, action, call, 1, condition) == 0;
  };
  for (const int call : kAllowed) add(SCMP_ACT_ALLOW, call);
  for (const int call : kFatal) add(SCMP_ACT_KILL_PROCESS, call);
  // glibc falls back to clone, whose flags a filter can read: a thread is
  // fine, a process is not.
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  add_if(SCMP_ACT_ALLOW, SCMP_SYS(clone),
         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
  add_if(SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone),
         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  // Name lookups of libc try a local socket: that fails, kindly.
  add_if(SCMP_ACT_KILL_PROCESS, SCMP_SYS(socket),
         SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  if (role == DICE_JAIL_ORACLE) add(SCMP_ACT_ALLOW, SCMP_SYS(memfd_create));
  return ok;
}

}  // namespace

std::vector<sock_filter> BuildSeccompFilter(int role) {
  std::vector<sock_filter> out;
  scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (ctx == nullptr) return out;
  // A balanced tree: a filter of 150 calls costs what one of 8 would.
  (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  const int fd = memfd_create("seccomp", MFD_CLOEXEC);
  if (fd >= 0 && AddRules(ctx, role) && seccomp_export_bpf(ctx, fd) == 0) {
    const off_t bytes = lseek(fd, 0, SEEK_END);
    out.resize(bytes / sizeof(sock_filter));
    if (pread(fd, out.data(), bytes, 0) != bytes) out.clear();
  }
  if (fd >= 0) close(fd);
  seccomp_release(ctx);
  return out;
}

}  // namespace dice
