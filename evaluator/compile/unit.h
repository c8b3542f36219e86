// The texts that compilers get for one candidate, or for several at once, and
// what their error lines say about whom.
#ifndef DICE_EVALUATOR_COMPILE_UNIT_H_
#define DICE_EVALUATOR_COMPILE_UNIT_H_

#include <map>
#include <string>
#include <vector>

#include "evaluator/compile/compiler.h"
#include "evaluator/compile/split.h"

namespace dice {

struct Candidate {
  CompileRequest request;
  SplitSource cpp;
  SplitSource cuda;
  std::vector<std::string> defines;  // -DNAME=VALUE among the flags
  bool fast_math = false;

  // May share a run with others: plain text, default flags.
  bool CanShare() const {
    return !cpp.needs_facade && !cuda.needs_facade && !cpp.needs_own_unit &&
           !cuda.needs_own_unit && cpp.bindings.empty() &&
           cuda.bindings.empty() && defines.empty() && !fast_math;
  }
};

Candidate MakeCandidate(const CompileRequest& request);

// What NVRTC gets; candidate i's lines are those of a file "candidate<i>.cu".
// Those without device text add nothing. Empty: there is none at all.
struct DeviceUnit {
  std::string text;
  bool needs_headers = false;  // cuda_fp16.h and its like
};
DeviceUnit MakeDeviceUnit(const std::vector<const Candidate*>& candidates,
                          const std::string& prelude);

// What g++ gets. `shared`: each candidate in a namespace of its own.
std::string MakeHostUnit(const std::vector<const Candidate*>& candidates,
                         bool shared);

// Candidate number -> its error lines, with the file named as the candidate
// knows it. Lines before the first that names one belong to nobody.
std::map<int, std::string> ErrorsByCandidate(const std::string& log);
// The same text for a unit of one.
std::string ErrorsOfOne(const std::string& log);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_UNIT_H_
