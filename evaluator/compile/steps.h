// The compiler runs for candidates that are not in the cache.
#ifndef DICE_EVALUATOR_COMPILE_STEPS_H_
#define DICE_EVALUATOR_COMPILE_STEPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluator/compile/toolchain.h"
#include "evaluator/compile/unit.h"

namespace dice {

// One candidate on its way. `status` not OK: we failed.
struct Work {
  Candidate candidate;
  bool consented = false;  // NVRTC took its device text
  absl::Status status;
  CompileResult result;
  std::string object;  // bytes of the shared object, when kOk
};

class CompileSteps {
 public:
  explicit CompileSteps(Toolchain* toolchain) : toolchain_(toolchain) {}

  // Candidates that CanShare(): one NVRTC program and one g++ run, again
  // without those that an error names. Whoever the lite header does not serve
  // is compiled alone. Thread-safe, as is Alone.
  void Shared(std::vector<Work*> batch);
  void Alone(Work* work);

 private:
  // Takes those that NVRTC rejects out of `batch`. False: no error named
  // anyone, nothing is decided.
  bool Consent(std::vector<Work*>* batch);
  void ConsentAlone(Work* work);
  // g++ for one; false: it does not compile with that header, *log says why.
  absl::StatusOr<bool> Host(Work* work, Toolchain::Header header,
                            std::string* log);
  absl::StatusOr<BoxResult> RunNvrtc(const DeviceUnit& unit,
                                     const Candidate* options_of);
  absl::StatusOr<BoxResult> RunGxx(const std::string& unit,
                                   Toolchain::Header header,
                                   std::string* object);

  Toolchain* const toolchain_;  // not owned
};

// True for an object with code that runs when it is loaded.
bool HasInitialisers(const std::string& object);
// `object` with the number of its candidate set.
std::string SetMember(std::string object, int member);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_STEPS_H_
