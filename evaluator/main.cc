// dice-evaluator: the pool's front (--mode pool) or one of its workers.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/base/log.h"
#include "evaluator/flags.h"
#include "evaluator/pool/pool_process.h"
#include "evaluator/worker/judge.h"
#include "evaluator/worker/synthetic_judge.h"
#include "evaluator/worker/work_process.h"

namespace dice {
namespace {

// Exit codes: 0 drained, 2 usage or configuration, 3 it could not start.
int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "dice-evaluator: %s\n", status.ToString().c_str());
  return absl::IsInvalidArgument(status) ? 2 : 3;
}

absl::Status Run(const EvaluatorFlags& flags) {
  if (flags.mode == "pool") return RunPool(flags.pool);
  if (flags.synthetic_judge_ms >= 0) {
    SyntheticJudge judge(absl::Milliseconds(flags.synthetic_judge_ms),
                         Clock::Real());
    return RunWorker(flags.worker, judge);
  }
  auto judge = CreateLocalJudge(flags.judge);
  if (!judge.ok()) return judge.status();
  return RunWorker(flags.worker, **judge);
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  CLI::App app{"The judge as a service: a pool and its workers"};
  dice::EvaluatorFlags flags;
  dice::AddFlags(app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  dice::Finalize(&flags);
  dice::SetLogRole(flags.mode == "pool" ? "pool"
                                        : "worker/" + flags.worker.name);
  return dice::ExitCode(dice::Run(flags));
}
