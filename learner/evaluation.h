// Measuring a policy on fixed tasks with fixed random streams, so that two
// measurements of one run differ by the policy alone. Not thread-safe.
#ifndef DICE_LEARNER_EVALUATION_H_
#define DICE_LEARNER_EVALUATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "learner/lease_table.h"
#include "proto/config.pb.h"
#include "proto/task.pb.h"
#include "proto/train_state.pb.h"

namespace dice {

// The tasks of every evaluation of a run: a seeded choice of train tasks and of
// held-out tasks, families in their shares.
struct EvaluationTasks {
  std::vector<Task> train;
  std::vector<Task> heldout;
};
EvaluationTasks ChooseEvaluationTasks(const Evaluation& config,
                                      const std::vector<Task>& train,
                                      const std::vector<Task>& heldout,
                                      uint64_t seed);

class EvaluationPass {
 public:
  // `label` ("sft", "final") names the scores; `config` and `tasks` are
  // borrowed.
  EvaluationPass(const Evaluation& config, const EvaluationTasks& tasks,
                 std::string label);

  // EVALUATE leases without lease_id, run seed, profile and least version: for
  // each task one with samples_per_task at T = 1, and one greedy sample where
  // the config asks for it. The same in every pass.
  std::vector<Lease> Leases() const;
  // Counts one group of theirs. Samples lost to infrastructure count nowhere.
  void Add(const CompletedGroup& group);
  const EvaluationScores& scores() const { return scores_; }

 private:
  TaskScore* ScoreOf(int64_t ordinal);

  const Evaluation& config_;
  const EvaluationTasks& tasks_;
  EvaluationScores scores_;
};

// Means over tasks.
struct ScoreSummary {
  double reward = 0;
  double correct = 0;
  double greedy_correct = 0;
  double speedup = 0;  // geometric, of correct samples with a baseline
};
ScoreSummary Summarize(
    const google::protobuf::RepeatedPtrField<TaskScore>& scores);

// Mean difference of the tasks' mean rewards, and its 95 % interval by a seeded
// bootstrap over tasks. All NaN when there is no common task.
struct Gain {
  double mean = 0, lo = 0, hi = 0;
};
Gain RewardGain(const google::protobuf::RepeatedPtrField<TaskScore>& before,
                const google::protobuf::RepeatedPtrField<TaskScore>& after,
                uint64_t seed);

}  // namespace dice

#endif  // DICE_LEARNER_EVALUATION_H_
