// From the groups of one step to the batch that is trained, and to what is
// reported about them. Pure functions.
#ifndef DICE_LEARNER_GROUP_BATCH_H_
#define DICE_LEARNER_GROUP_BATCH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "learner/lease_table.h"
#include "proto/config.pb.h"
#include "proto/train_batch.pb.h"

namespace dice {

// Means are over samples with a reward; NaN when there is none.
struct GroupStats {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double reward_mean = kNone;
  double reward_best = kNone;
  double compiled = kNone;       // share
  double correct = kNone;        // share
  double deceptive = kNone;      // share
  double fast_1 = kNone;         // share that is correct and faster than 1x
  double speedup_mean = kNone;   // geometric, of correct ones with a baseline
  double speedup_best = kNone;
  double staleness_mean = kNone; // versions, of responses
  int64_t groups_kept = 0;
  int64_t groups_zero_variance = 0;
  int64_t samples = 0;           // rollouts that came back
  int64_t tokens = 0;            // sampled response tokens up to the stop
  int64_t judge_calls = 0;       // verdicts
  int64_t cache_hits = 0;
  int64_t infra_errors = 0;      // samples lost, groups that were given up too
};

struct GroupBatch {
  TrainBatch batch;   // kind POLICY, groups only; without any when none is kept
  GroupStats stats;
};

// True when the rewards of `group` differ, so that it has a gradient.
bool HasSignal(const CompletedGroup& group, const Reward& reward);

// Rewards and advantages of every group; the batch holds the groups that are
// kept (those with a signal; with KEEP also those without), without samples that
// have no reward. Writes reward and advantage into the rollouts, for the record.
// `version`: the policy that the batch will update.
GroupBatch MakeGroupBatch(const RlStage& stage, int64_t version,
                          std::vector<CompletedGroup>& groups);

// The same report for groups that are not trained on.
GroupStats DescribeGroups(const Reward& reward, int64_t version,
                          const std::vector<CompletedGroup>& groups);

}  // namespace dice

#endif  // DICE_LEARNER_GROUP_BATCH_H_
