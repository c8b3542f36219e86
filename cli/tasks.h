// `dice tasks`: look at task files, and make infilling tasks of kernels.
#ifndef DICE_CLI_TASKS_H_
#define DICE_CLI_TASKS_H_

#include <string>
#include <vector>

#include "cli/command.h"
#include "common/tasks/scaffold.h"
#include "proto/task.pb.h"

namespace dice::cli {

// Infilling tasks from tasks that ship a complete kernel (a solution that is a
// whole candidate): one per place of that cut, id "<id>/<n>". Each problem,
// told by its reference, is in one split: "heldout" for that share of the
// problems.
std::vector<Task> CutTasks(const std::vector<Task>& tasks, ScaffoldCut cut,
                           double heldout_share);

// Adds `tasks list|show|cut`.
void AddTasks(CLI::App& app, Body& body);

}  // namespace dice::cli

#endif  // DICE_CLI_TASKS_H_
