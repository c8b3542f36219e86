// Admission and batching of one RL stage: which groups may be in flight while
// the learner works on a step, and which groups make up that step. Batches are
// by ordinal, never by arrival, so that a run does not depend on who was fast.
// Pure logic. Not thread-safe: the driver owns it.
#ifndef DICE_LEARNER_GROUP_PLANNER_H_
#define DICE_LEARNER_GROUP_PLANNER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "learner/lease_table.h"

namespace dice {

class GroupPlanner {
 public:
  struct Options {
    int64_t steps = 0;            // of the stage
    int64_t tasks_per_step = 0;
    int64_t max_staleness = 0;    // S
    int64_t first_step = 0;       // a resumed stage begins here
    int64_t version_of_step0 = 0; // policy version at the stage's start
  };
  // A group to sample.
  struct Slot {
    int64_t ordinal = 0;
    int64_t step = 0;         // that will train on it
    int64_t min_version = 0;  // older samples would be more than S steps stale
  };
  // Groups of a step that may be sampled anew when theirs carry no signal.
  static constexpr int kMaxRefillRounds = 4;

  explicit GroupPlanner(const Options& options);

  // Slots that admission allows while the learner waits for or works on `step`,
  // each handed out once. With all of them out, the groups that are leased,
  // sampled or buffered number at most (S + 1) * tasks_per_step.
  std::vector<Slot> Admit(int64_t step);
  // One more group for `step`; nullopt when its refill budget is used up.
  // Ordinals of refills lie behind all regular ones and are the same after a
  // resume.
  std::optional<Slot> Refill(int64_t step);

  // Files a group under its lease's ordinal.
  void Put(CompletedGroup group);
  // Every slot of `step` that was handed out has come back.
  bool Complete(int64_t step) const;
  // The groups of `step` by ordinal; forgets them.
  std::vector<CompletedGroup> Take(int64_t step);
  // Handed out and not yet taken.
  int64_t outstanding() const;

 private:
  struct Step {
    int64_t expected = 0;
    std::map<int64_t, CompletedGroup> groups;
  };
  Slot Make(int64_t ordinal, int64_t step) const;

  const Options options_;
  int64_t next_step_;              // first one not admitted
  std::map<int64_t, Step> steps_;
  std::map<int64_t, int64_t> step_of_;  // ordinal -> step, outstanding
  std::map<int64_t, int64_t> refills_;  // per step, so far
};

}  // namespace dice

#endif  // DICE_LEARNER_GROUP_PLANNER_H_
