// One candidate in one runner: load it, run it on input sets, time it. What
// goes wrong inside is an outcome; what goes wrong around it is a Status.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_RUN_H_
#define DICE_EVALUATOR_WORKER_JUDGE_RUN_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "evaluator/compile/compiler.h"
#include "evaluator/worker/judge_oracle.h"
#include "evaluator/worker/judge_timing.h"
#include "evaluator/worker/judge_zygote.h"

namespace dice {

// Why an evaluation ended early.
struct Ending {
  Outcome outcome = OUTCOME_UNSPECIFIED;
  std::string message;
  bool operator==(const Ending&) const = default;
};

class CandidateRun {
 public:
  struct Deps {
    Zygote& zygote;
    Compiler& compiler;
    Oracle& oracle;
  };
  struct Options {
    ChildLimits limits;
    absl::Duration timeout;  // wall time of all that the candidate does
    bool cuda_names = true;  // the emulated device answers to "cuda"
  };
  CandidateRun(const Deps& deps, const Options& options, std::stop_token stop)
      : deps_(deps), options_(options), stop_(std::move(stop)) {}

  // Each returns nullopt to go on, or the ending. Calls after an ending are a
  // bug. CANCELLED: stop was requested. UNAVAILABLE: we failed.
  using Step = absl::StatusOr<std::optional<Ending>>;
  Step Load(const std::string& candidate);
  Step CheckSet(int set, double tolerance, Comparison* comparison);
  // Seconds per call by bursts of n and 4n calls (judge_timing.cc). The outputs
  // of timed calls are checked too.
  Step Time(double tolerance, MeasuredTime* time);

  double compile_seconds() const { return compile_seconds_; }
  const std::string& tier() const { return tier_; }
  int64_t launches() const { return launches_; }
  // CPU time of the runner so far, read from outside.
  absl::StatusOr<absl::Duration> CpuTime() const { return child_->CpuTime(); }
  bool compiled_anything() const { return compiled_; }

 private:
  // The runner's next message; an ending when it died, hung or grew too big.
  absl::StatusOr<std::optional<Ending>> Await(JudgeStage stage,
                                              ChannelMessage* message);
  Step Compile();
  Ending FromExit(JudgeStage stage, int code) const;
  Ending FromFailure(const nlohmann::json& body) const;
  // Buffers shared with the runner: inputs and outputs of up to `calls` calls.
  struct Ring {
    int calls = 0;
    OwnedFd inputs, outputs;
  };
  Step MakeRing(int calls, Ring* ring);
  // Runs the first `n` calls of a burst in ring `which`, with the secret inputs
  // `index`. CPU seconds of the runner in `seconds`.
  Step Burst(int which, int index, int n, double tolerance, double* seconds);

  const Deps deps_;
  const Options options_;
  const std::stop_token stop_;
  Ring rings_[2];    // of n and of 4n calls
  OwnedFd sources_;  // where the runner writes what it wants compiled
  std::unique_ptr<JailedChild> child_;
  absl::Time deadline_;
  std::optional<Ending> compile_ending_;
  double compile_seconds_ = 0;
  std::string tier_;
  int64_t launches_ = 0;
  bool compiled_ = false;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_RUN_H_
