// The objective. Every function returns a SUM over the given tokens, already
// divided by the global normaliser, so that gradients of several ranks add up.
//
// N loss positions, V vocabulary; vectors are [N], fp32 unless the model is
// wider.
#ifndef DICE_LEARNER_LOSS_H_
#define DICE_LEARNER_LOSS_H_

#include <torch/torch.h>

#include <vector>

#include "common/model/diffusion_lm.h"
#include "learner/rows.h"
#include "proto/config.pb.h"

namespace dice {

struct TokenScores {
  torch::Tensor logprob;  // of the target, under the softmax over allowed ids
  torch::Tensor entropy;  // nats, of that softmax; undefined if not asked for
};
struct ScoreOptions {
  bool entropy = true;
  // Logits are made, used and dropped in pieces of at most this many elements,
  // forward and backward, so that V-wide memory is bounded.
  int64_t max_logits = int64_t{1} << 26;
};
// Scores of the loss positions of `rows`, in their order. Differentiable in the
// weights unless a NoGradGuard is alive. The head runs once for each distinct
// loss row, and on no other.
TokenScores ScoreTokens(const DiffusionLm& lm, const TrainRows& rows,
                        const ScoreOptions& options = {});

// Per-token inputs of the policy objective.
struct PolicyTokens {
  torch::Tensor logprob;            // current policy, with gradient
  torch::Tensor old_logprob;        // before this update
  torch::Tensor behavior_logprob;   // recorded by the actor
  torch::Tensor reference_logprob;  // frozen reference; undefined if unused
  torch::Tensor entropy;            // with gradient
  torch::Tensor advantage;
  torch::Tensor weight;  // 1 / normaliser (see TokenWeights)
};
struct PolicyLossResult {
  torch::Tensor loss;  // scalar with gradient
  double kl_sum = 0;   // of the k3 estimator to lp_behav (unweighted)
  double clipped = 0;  // tokens whose ratio was clipped
};
// -sum w min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A) c
//   + kl_beta sum w k3 - entropy_bonus sum w H
// with ratio = exp(lp - lp_old), c = min(exp(lp_old - lp_behav),
// importance_cap), k3 = exp(d) - d - 1, d = lp_ref - lp (Schulman, 2020).
PolicyLossResult ComputePolicyLoss(const PolicyTokens& tokens,
                                   const PolicyLoss& config,
                                   double entropy_bonus);

// Weight of each loss position so that the weighted sum over all ranks is the
// configured mean. `lengths[i]` = loss tokens of response i, which
// `response_of_token` names; `total` = loss tokens over all ranks, `responses` =
// how many responses over all ranks.
std::vector<float> TokenWeights(const std::vector<int64_t>& lengths,
                                const std::vector<int64_t>& response_of_token,
                                const PolicyLoss& config, double total,
                                double responses);

// The entropy bonus at step `step` of a stage: linear to 0 over
// entropy_bonus_decay_steps, constant when that is 0.
double EntropyBonus(const PolicyLoss& config, int64_t step);

}  // namespace dice

#endif  // DICE_LEARNER_LOSS_H_
