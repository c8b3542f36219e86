// Where the judge's parts lie: beside the executable (a bundle or an
// installation), or in the source and build trees.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_PLACES_H_
#define DICE_EVALUATOR_WORKER_JUDGE_PLACES_H_

#include <string>

#include "absl/status/statusor.h"

namespace dice {

struct JudgePlaces {
  std::string python;       // has torch
  std::string harness_dir;  // holds evaluator/{oracle,runner,emulate}
  std::string jail_library;
  std::string default_cache_dir;  // of compiled objects
  std::string harness_version;    // content hash of the harness
};

// Arguments win over the environment (DICE_PYTHON, DICE_HARNESS_DIR), which
// wins over the built-in paths. FAILED_PRECONDITION names what was not found
// and where it was looked for.
absl::StatusOr<JudgePlaces> FindJudgePlaces(const std::string& python,
                                            const std::string& harness_dir);

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_PLACES_H_
