// Tells a name that torch or CUDA has and the facade lacks from one that does
// not exist: the first is our limit, the second the candidate's error.
#ifndef DICE_EVALUATOR_COMPILE_MISSING_NAME_H_
#define DICE_EVALUATOR_COMPILE_MISSING_NAME_H_

#include <string>

namespace dice {

// The first name that g++'s `log` misses and the real headers below
// `torch_include` or `cuda_include` declare; empty: none. Reads files.
std::string RealMissingName(const std::string& log,
                            const std::string& torch_include,
                            const std::string& cuda_include);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_MISSING_NAME_H_
