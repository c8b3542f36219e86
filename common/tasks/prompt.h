// The instruction that asks a chat model for a kernel, for tasks that bring a
// reference but no prompt (KernelBench, DICE lists). Qwen's chat format.
#ifndef DICE_COMMON_TASKS_PROMPT_H_
#define DICE_COMMON_TASKS_PROMPT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/task.pb.h"

namespace dice {

// Ends where the assistant's answer begins.
std::string EndToEndPrompt(absl::string_view reference_source);
// Shows prefix and suffix. Ends inside an opened code fence, so that the
// response can begin with the prefix itself (INFILL_FORCED) or rewrite all
// (INFILL_PROMPT_ONLY).
std::string InfillPrompt(absl::string_view reference_source,
                         const Scaffold& scaffold);

}  // namespace dice

#endif  // DICE_COMMON_TASKS_PROMPT_H_
