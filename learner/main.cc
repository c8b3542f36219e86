// dice-learner: one rank of the learner. Rank 0 also serves LearnerService.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/config/config.h"
#include "common/parallel/rank.h"
#include "learner/flags.h"
#include "learner/run.h"

namespace dice {
namespace {

// Exit codes: 0 done or stopped at a checkpoint, 2 usage or configuration, 3 it
// failed.
int Exit(const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return 0;
  std::fprintf(stderr, "dice-learner: %s\n", status.ToString().c_str());
  const bool users = absl::IsInvalidArgument(status) ||
                     absl::IsFailedPrecondition(status) ||
                     absl::IsNotFound(status);
  return users ? 2 : 3;
}

int Main(LearnerFlags& flags) {
  auto config = LoadConfig(flags.config, flags.sets);
  if (!config.ok()) return Exit(config.status());
  if (flags.print_config) std::fputs(PrintConfig(*config).c_str(), stdout);
  auto rank = DiscoverRank();
  if (!rank.ok()) return Exit(rank.status());
  SetLogRole("learner/" + std::to_string(rank->rank));
  if (flags.print_config || flags.dry_run) return 0;
  std::stop_source stop;
  // Ranks above 0 go on until rank 0 says stop, or is gone.
  SignalHandler signals([&] { stop.request_stop(); });
  return Exit(RunLearner({.config = *config,
                          .run_dir = RunDir(flags, *config),
                          .resume = flags.resume,
                          .rank = *rank,
                          .server = flags.server},
                         stop.get_token()));
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  CLI::App app{"The learner: SFT and RL of the policy"};
  dice::LearnerFlags flags;
  dice::AddFlags(app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return dice::Main(flags);
}
