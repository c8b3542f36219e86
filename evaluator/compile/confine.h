// What a compiler may touch: limits and file rights of one job's process.
#ifndef DICE_EVALUATOR_COMPILE_CONFINE_H_
#define DICE_EVALUATOR_COMPILE_CONFINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace dice {

// In a child before it compiles. CPU seconds, address space beyond `mapped`
// bytes, 256 MiB a file, no core dump; then, where the kernel has Landlock, no
// file but those below `readable` (with execution) and `writable`. Never
// fails: what the kernel lacks is left out.
void Confine(uint32_t cpu_s, uint64_t memory_bytes,
             const std::vector<std::string>& readable,
             const std::string& writable);

// Once, before any job: leaves the network when this process may (root).
void LeaveNetwork();

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_CONFINE_H_
