// `dice report RUN_DIR`: one self-contained HTML page of a run.
#ifndef DICE_CLI_REPORT_H_
#define DICE_CLI_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/command.h"

namespace dice::cli {

// The page: no other file, no network. Errors of GatherReport.
absl::StatusOr<std::string> MakeReport(const std::string& run_dir);

// Adds the subcommand. It writes RUN_DIR/report.html, or --out.
void AddReport(CLI::App& app, Body& body);

}  // namespace dice::cli

#endif  // DICE_CLI_REPORT_H_
