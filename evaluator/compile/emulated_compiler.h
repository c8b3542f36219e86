// The compiler of the emulated device: NVRTC must accept the device code (else
// nothing counts as compiled), and g++ makes the object that runs on the CPU.
//
// Tiers of the second half, cheapest first:
//   lite    an include-free header; up to 16 waiting candidates in one g++ run
//   facade  the whole shim and torch facade from a precompiled header
#ifndef DICE_EVALUATOR_COMPILE_EMULATED_COMPILER_H_
#define DICE_EVALUATOR_COMPILE_EMULATED_COMPILER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "evaluator/compile/compiler.h"

namespace dice {

struct EmulatedCompilerOptions {
  std::string python;       // its site-packages hold libnvrtc
  std::string harness_dir;  // holds evaluator/emulate/include
  std::string cache_dir;    // objects and negative results, kept for good
  int processes = 2;        // compilers at once
};
// FAILED_PRECONDITION: g++ or NVRTC is missing, with where it was looked for.
absl::StatusOr<std::unique_ptr<Compiler>> CreateEmulatedCompiler(
    const EmulatedCompilerOptions& options);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_EMULATED_COMPILER_H_
