// Rewrites what a host compiler cannot read in CUDA source: launches, and
// shared memory of a size given at launch.
#ifndef DICE_EVALUATOR_COMPILE_LAUNCH_REWRITER_H_
#define DICE_EVALUATOR_COMPILE_LAUNCH_REWRITER_H_

#include <string>
#include <string_view>
#include <vector>

#include "evaluator/compile/lexer.h"

namespace dice {

struct Edit {
  size_t begin, end;  // range of the source that `text` replaces
  std::string text;
};
using Edits = std::vector<Edit>;

// Edits of `source` that make
//   kernel<<<grid, block, shared, stream>>>(args)   a call of Run<waits>, where
//     waits = the kernel can reach a barrier or a warp-wide function;
//   extern __shared__ T name[];                     a pointer to the runtime's
//     buffer.
// Launches in macro bodies too. *found: whether there was a launch.
Edits RewriteLaunches(const std::vector<Token>& tokens, bool* found);

// `source` with the edits made; they must not overlap.
std::string Apply(std::string_view source, Edits edits);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_LAUNCH_REWRITER_H_
