// What a jailed process may ask of the kernel.
#ifndef DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_
#define DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_

#include <linux/filter.h>

#include <vector>

namespace dice {

// A deny list over an allowed rest. New processes, other programs, sockets but
// AF_UNIX, and the calls that only an attack needs, end the process with SIGSYS
// (the supervisor reads that as SANDBOX_VIOLATION); threads are allowed. Calls
// that libraries probe for answer ENOSYS. `allow_programs` permits processes and
// programs (compile boxes). Empty on failure (errno is set).
std::vector<sock_filter> BuildSeccompFilter(bool allow_programs);

}  // namespace dice

#endif  // DICE_EVALUATOR_SANDBOX_SECCOMP_FILTER_H_
