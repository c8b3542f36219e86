// The jail of oracles and runners: a C ABI, loaded by ctypes into the zygote
// (a warm, single-threaded Python process) and never into a process that has
// threads. Errors are text in a caller's buffer.
//
// Levels, as every verdict reports them:
//   full     own world: pid, mount, net, ipc, uts and cgroup namespaces (of a
//            user namespace when not root), pivot_root onto a read-only tree,
//            fresh /proc and /tmp, slot uid (when root), no capabilities,
//            no_new_privs, Landlock where the kernel has it, seccomp, rlimits.
//   partial  where namespaces are not to be had: slot uid (when root), no
//            capabilities, no_new_privs, Landlock, seccomp, rlimits.
//   none     rlimits only; refused unless a flag allows it.
// What this does not protect against: kernel bugs, and side channels of the
// processor. docs/threat_model.md has the list.
#ifndef DICE_EVALUATOR_SANDBOX_JAIL_H_
#define DICE_EVALUATOR_SANDBOX_JAIL_H_

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DICE_JAIL_NONE = 1, DICE_JAIL_PARTIAL = 2, DICE_JAIL_FULL = 3 };

// The oracle may make memfds; a runner gets the files it writes to, so that
// what it holds is bounded by data_bytes, file_bytes and its /tmp of 64 MiB.
enum { DICE_JAIL_RUNNER = 1, DICE_JAIL_ORACLE = 2 };

struct dice_jail_limits {
  int64_t data_bytes;  // private memory beyond what the zygote holds
  int64_t file_bytes;  // size of one file
  int64_t open_files;
  int64_t cpu_seconds;  // backstop; the supervisor's clock is the limit
  int32_t uid;          // slot uid and gid; used when started as root
  int32_t threads;      // of that uid; used when started as root
  int32_t role;         // DICE_JAIL_RUNNER or _ORACLE
};

// Once, before the first fork: builds the read-only tree at `root` (an empty
// folder) from `paths`, a newline-separated list of absolute paths that appear
// under their own names, and compiles the seccomp filter. Returns the level
// reached, at most `level`; -1 with text in `error`.
int dice_jail_prepare(int level, const char* root, const char* paths,
                      char* error, int error_size);

// 1 when the kernel has Landlock.
int dice_jail_features(void);

// Like fork(): 0 in the jailed child, its pid in the parent with a pidfd in
// `pidfd`; -1 with text in `error`. A child whose jail cannot be built exits
// with code 125 before anything hostile runs in it.
pid_t dice_jail_fork(const struct dice_jail_limits* limits, int* pidfd,
                     char* error, int error_size);

// Backs this process's private memory with huge pages where the kernel can. A
// fork of a process that imported torch then copies a few hundred page table
// entries instead of 70,000: 31 ms of CPU became 10.
void dice_jail_compact(void);

#ifdef __cplusplus
}
#endif

#endif  // DICE_EVALUATOR_SANDBOX_JAIL_H_
