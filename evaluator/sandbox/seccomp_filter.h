// What a jailed process may ask of the kernel.
#ifndef DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_
#define DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_

#include <linux/filter.h>

#include <vector>

namespace dice {

// An allow-list of what Python, torch and a kernel need, for DICE_JAIL_RUNNER
// or _ORACLE. New processes, other programs, networks, tracing, mounting and
// the like end the process with SIGSYS (the supervisor reads that as
// SANDBOX_VIOLATION); threads are allowed; every other call fails with EPERM.
// Empty on failure (errno is set).
std::vector<sock_filter> BuildSeccompFilter(int role);

}  // namespace dice

#endif  // DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_
