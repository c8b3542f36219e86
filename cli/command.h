// How a command joins `dice`: it declares its options, and leaves behind what
// to do once they are parsed. One file per command; main.cc lists them.
#ifndef DICE_CLI_COMMAND_H_
#define DICE_CLI_COMMAND_H_

#include <functional>
#include <string>

#include "CLI/CLI.hpp"

namespace dice::cli {

// Exit codes of every command.
enum ExitCode {
  kAccepted = 0,   // done; for `check`, the candidate is accepted
  kRejected = 1,   // the work was done and the answer is no
  kUsage = 2,      // bad arguments or config; nothing was done
  kInfra = 3,      // we failed: worth another try
  kUndecided = 4,  // UNSUPPORTED or TASK_ERROR: nobody's fault here
};

// Runs the chosen command; returns its exit code.
using Body = std::function<int()>;

// Each adds one subcommand to `app`; when it is chosen, `body` is set while
// parsing.
void AddCheck(CLI::App& app, Body& body);
void AddTrain(CLI::App& app, Body& body);

}  // namespace dice::cli

#endif  // DICE_CLI_COMMAND_H_
