// A verdict for people and for programs.
#ifndef DICE_CLI_VERDICT_TEXT_H_
#define DICE_CLI_VERDICT_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"
#include "proto/verdict.pb.h"

namespace dice::cli {

// Flat, every key always present, enum values bare:
// {"outcome": "CORRECT", "blame": "CANDIDATE", "stage": "timing",
//  "isolation": "full", "speedup": 0.0, ...}. Numbers are finite.
nlohmann::ordered_json VerdictJson(const Verdict& verdict);

// Several lines, newline at the end; `colour` uses ANSI escapes.
std::string VerdictText(const Verdict& verdict, bool colour);

// kAccepted, kRejected or kUndecided.
int VerdictExitCode(const Verdict& verdict);

// "timing"; "" when unspecified.
std::string StageName(JudgeStage stage);

}  // namespace dice::cli

#endif  // DICE_CLI_VERDICT_TEXT_H_
