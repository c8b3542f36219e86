// Gathers what `dice report` shows from a run folder, complete or cut short, of
// a run that has ended or still goes on. Reads only; no thread-safety needed.
#ifndef DICE_CLI_REPORT_DATA_H_
#define DICE_CLI_REPORT_DATA_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace dice::cli {

// One JSON object:
//   name, device ("" until a verdict says), notes (what could not be read)
//   steps     metrics.jsonl as it is, one object a learner step
//   outcomes  per RL step: {stage, step, counts: {outcome: n}}; LOST counts
//             samples that infrastructure lost
//   judge     {evaluations, cached, stage_s: {parse: mean seconds, ...}}
//   families  per task family: {family, tasks, correct_sft, correct_final} in
//             the evaluation before and after RL, held-out tasks
//   best      up to 6 kernels, of different tasks, by the certain (lower) end
//             of their speedup: {task, prompt, reference, naive, kernel,
//             speedup, speedup_lo, speedup_hi, basis, stage, step}
//   summary   summary.json, or null
// A missing or damaged file makes its part empty and adds a note. NOT_FOUND:
// `run_dir` is no folder, or holds nothing of a run.
absl::StatusOr<nlohmann::ordered_json> GatherReport(const std::string& run_dir);

}  // namespace dice::cli

#endif  // DICE_CLI_REPORT_DATA_H_
