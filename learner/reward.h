// From verdict to reward to advantage. Pure functions.
#ifndef DICE_LEARNER_REWARD_H_
#define DICE_LEARNER_REWARD_H_

#include <optional>
#include <vector>

#include "proto/config.pb.h"
#include "proto/rollout.pb.h"
#include "proto/verdict.pb.h"

namespace dice {

// The candidate got past its compilers.
bool Compiled(const Verdict& verdict);
// CORRECT; DECEPTIVE counts as incorrect.
bool Correct(const Verdict& verdict);

// r = w_compile * compiled + w_correct * correct + w_speed * f(speedup), with
// f = log2(speedup) clipped to [speed_log2_min, speed_log2_max] and scaled to at
// most 1 (divided by speed_log2_max), 0 where there is no baseline or where 1
// lies inside the measured interval. Times library_factor where work is
// "library". nullopt: no reward at all (lost to infrastructure, blame TASK or
// NONE); such a sample is not a zero.
std::optional<double> ComputeReward(const Reward& config,
                                    const Rollout& rollout);

// One advantage per reward; entries without a reward get 0 and count nowhere.
//   Z_SCORE        (r - mean) / (population std + 1e-6)
//   MEAN_ONLY      r - mean                        (Dr.GRPO, arXiv 2503.20783)
//   LEAVE_ONE_OUT  r - mean of the others          (RLOO, arXiv 2402.14740)
// Negative ones are scaled by `negative_scale`. All zeros when the rewards are
// equal or fewer than two.
std::vector<double> ComputeAdvantages(
    const std::vector<std::optional<double>>& rewards, AdvantageKind kind,
    double negative_scale);

}  // namespace dice

#endif  // DICE_LEARNER_REWARD_H_
