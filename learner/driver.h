// Rank 0's main loop: stages in order, evaluations before and after RL, policy
// versions, checkpoints, the record of the run. It meets actors only through
// LeaseTable and PolicyBoard. One thread.
#ifndef DICE_LEARNER_DRIVER_H_
#define DICE_LEARNER_DRIVER_H_

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/metrics/health.h"
#include "common/tasks/schedule.h"
#include "common/text/tokenizer.h"
#include "learner/checkpoint.h"
#include "learner/evaluation.h"
#include "learner/group_planner.h"
#include "learner/lease_table.h"
#include "learner/metrics.h"
#include "learner/policy_board.h"
#include "learner/run_record.h"
#include "learner/trainer.h"

namespace dice {

class Driver {
 public:
  struct Deps {  // all borrowed, outlive this
    const Config& config;  // complete and valid
    const std::vector<Task>& train;
    const std::vector<Task>& heldout;
    const Tokenizer& tokenizer;
    DiffusionLm& lm;
    Trainer& trainer;
    LeaseTable& leases;
    PolicyBoard& policies;
    RunRecord& record;
    LearnerMetrics& metrics;
    Health::ProgressClock& progress;
    Clock& clock;
  };
  // A new run has an empty `state` but for its run_id; a resumed one the state
  // of its checkpoint, whose weights `lm` holds already.
  Driver(Deps deps, std::string run_dir, TrainState state);

  // Restores what a checkpoint held besides weights and state. Before Run.
  void SetRestored(Trainer::State optimizer) {
    restored_ = std::move(optimizer);
  }
  // Runs until the last stage is done (OK; summary.json is written) or `stop`:
  // then the running update ends, a checkpoint is written, and the result is
  // CANCELLED. Other errors end the run; the last checkpoint stands.
  absl::Status Run(std::stop_token stop);

  // Thread-safe.
  LearnerStatus Status() const ABSL_LOCKS_EXCLUDED(status_mu_);

 private:
  absl::Status RunStage(const Stage& stage);
  absl::Status RunSft(const Stage& stage);
  absl::Status RunRl(const Stage& stage);
  // Everything that one RL step does between its groups and its report.
  absl::Status RlStep(const Stage& stage, GroupPlanner& planner,
                      TaskSchedule& schedule);
  absl::StatusOr<std::vector<CompletedGroup>> CollectStep(
      const RlStage& rl, GroupPlanner& planner, TaskSchedule& schedule);
  // Files arriving groups until `step` is complete.
  absl::Status Collect(GroupPlanner& planner, int64_t step);
  void Offer(const RlStage& rl, const GroupPlanner::Slot& slot,
             TaskSchedule& schedule);
  absl::Status Evaluate(const std::string& label);
  bool Evaluated(const std::string& label) const;
  absl::Status EvaluateWhereDue(const Stage& stage);

  // Tells all ranks that a stage begins; restores its optimizer after a resume.
  absl::Status BeginStage(const Stage& stage);
  // The next group; CANCELLED on stop. Keeps ranks and watchers awake.
  absl::StatusOr<CompletedGroup> AwaitGroup();
  absl::Status Publish();
  absl::Status SaveNow();
  absl::Status EndStep(StepReport report);
  void NoteBest(const Stage& stage, const std::vector<CompletedGroup>& groups);
  void CountGroups(const GroupStats& stats);
  void SetStatus(const std::string& stage);
  double Elapsed() const;  // seconds of the run, earlier incarnations included
  StreamKey StageKey() const;

  const Deps deps_;
  const std::string run_dir_;
  const absl::Time started_;
  const double wall_before_;
  EvaluationTasks evaluation_tasks_;
  TrainState state_;
  std::optional<Trainer::State> restored_;
  std::stop_token stop_;
  std::map<int64_t, std::string> cursors_;  // schedule, before each step's slots
  std::map<int64_t, size_t> task_of_;  // ordinal -> index in train, in flight
  absl::Time last_heartbeat_;
  absl::Time last_warning_;

  mutable Mutex status_mu_;
  LearnerStatus status_ ABSL_GUARDED_BY(status_mu_);
};

}  // namespace dice

#endif  // DICE_LEARNER_DRIVER_H_
