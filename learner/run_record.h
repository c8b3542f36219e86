// Everything that a run leaves for people: metrics.jsonl and TensorBoard,
// rollouts/, summary.json, and the live lines on stdout. Not thread-safe.
#ifndef DICE_LEARNER_RUN_RECORD_H_
#define DICE_LEARNER_RUN_RECORD_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics/run_log.h"
#include "learner/group_batch.h"
#include "proto/train_state.pb.h"

namespace dice {

// One learner step. What a stage does not have stays NaN and becomes null.
struct StepReport {
  std::string stage;
  int64_t step = 0;          // 1-based, within the stage
  int64_t stage_steps = 0;
  int64_t policy_version = 0;  // after the step
  double time_s = 0;         // since the run began, over all its restarts
  GroupStats groups;
  double tokens_per_s = 0;   // sampled (RL) or labelled (SFT)
  double evals_per_s = GroupStats::kNone;
  double kl = GroupStats::kNone;
  double clip_fraction = GroupStats::kNone;
  double grad_norm = GroupStats::kNone;
  double loss = GroupStats::kNone;
  double entropy = GroupStats::kNone;  // nats per token
  double lr = 0;
};

class RunRecord {
 public:
  // Opens the files in `run_dir`, keeping the first `keep_rows` rows of
  // metrics.jsonl. Lines go to `live`, which outlives this.
  static absl::StatusOr<std::unique_ptr<RunRecord>> Create(
      const std::string& run_dir, int64_t keep_rows, std::ostream& live);

  // One row, and one live line (of SFT every tenth).
  absl::Status Step(const StepReport& report);
  // rollouts/NAME.jsonl: one Rollout as protobuf JSON a line. Replaces it, so
  // that a step that is repeated after a resume appears once.
  absl::Status Rollouts(const std::string& name, const std::string& stage,
                        int64_t step, const std::vector<CompletedGroup>& groups);
  // One live line for an evaluation.
  void Evaluated(const EvaluationScores& scores);
  // summary.json, from the state at the end.
  absl::Status Summary(const TrainState& state);
  int64_t rows() const { return log_->rows(); }

 private:
  RunRecord(std::string run_dir, std::unique_ptr<RunLog> log,
            std::ostream& live)
      : run_dir_(std::move(run_dir)), log_(std::move(log)), live_(live) {}
  void PrintLine(const StepReport& report);

  const std::string run_dir_;
  const std::unique_ptr<RunLog> log_;
  std::ostream& live_;
};

}  // namespace dice

#endif  // DICE_LEARNER_RUN_RECORD_H_
