// Task files and the two pure functions that join task, policy and judge:
// what the policy reads (MakePrompt) and what the judge reads (MakeCandidate).
#ifndef DICE_COMMON_TASKS_TASKS_H_
#define DICE_COMMON_TASKS_TASKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/task.pb.h"

namespace dice {

// Loads tasks by the kind of `path`:
//   *.jsonl (or .jsonl.gz): one protobuf-JSON Task a line;
//   *.json: DICE's lists (fields pytorch_code, cuda_code, prefix, middle,
//           suffix, level, id or idx) and KernelBench lists (code, name,
//           problem_id, level);
//   *.py, or a folder: KernelBench files, N_Name.py below levelN/.
// Kinds without a prompt of their own get the instruction of prompt.h.
// INVALID_ARGUMENT lists every bad entry with file and line or index.
absl::StatusOr<std::vector<Task>> LoadTasks(const std::string& path);
absl::Status SaveTasksJsonl(const std::string& path,
                            const std::vector<Task>& tasks);

// What is wrong with `task`, one line each: no id or reference, a template
// without its one placeholder, a scaffold that does not make its response.
std::vector<std::string> TaskViolations(const Task& task);

// SHA-256 of the deterministic serialisation of what the judge reads.
std::string TaskDigest(const Task& task);

// What stands before the response, as text, to be tokenised by itself.
std::string MakePrompt(const Task& task, ResponseMode mode);
// Text forced at the start of the response; empty unless INFILL_FORCED.
std::string ForcedPrefix(const Task& task, ResponseMode mode);
// The candidate's Python source from the decoded response up to its stop
// (forced prefix included). Pure. INVALID_ARGUMENT (a FORMAT_ERROR of the
// candidate): no fenced code where one is needed.
absl::StatusOr<std::string> MakeCandidate(const Task& task, ResponseMode mode,
                                          absl::string_view response);

// One supervised sample: what stands before, and the response's text, of which
// the part `forced` carries no loss. The three are tokenised apart.
struct SftSample {
  std::string prompt;
  std::string forced;
  std::string trained;  // an end of sequence follows
};
// `whole`: the complete response after END_TO_END's prompt. Otherwise, and
// where the solution has a scaffold: its middle after the forced prefix,
// exactly as INFILL_FORCED samples it.
SftSample MakeSftSample(const Task& task, const Solution& solution, bool whole);

}  // namespace dice

#endif  // DICE_COMMON_TASKS_TASKS_H_
