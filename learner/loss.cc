#include "learner/loss.h"

#include <algorithm>

namespace dice {

using torch::Tensor;

TokenScores ScoreTokens(const DiffusionLm& lm, const TrainRows& rows) {
  std::vector<int64_t> index, target;
  for (const LossPosition& p : rows.losses) {
    index.push_back(p.row);
    target.push_back(p.target);
  }
  const Tensor hidden =
      lm.Hidden(rows.layout)
          .index_select(0, torch::tensor(index, torch::kInt64));
  const Tensor all = torch::log_softmax(
      lm.Head(hidden).to(torch::kFloat32) + lm.allowed_ids_mask(), -1);
  TokenScores out;
  out.logprob =
      all.gather(1, torch::tensor(target, torch::kInt64).unsqueeze(1))
          .squeeze(1);
  // 0 * -inf of disallowed ids must be 0.
  const Tensor finite = all.masked_fill(all.isinf(), 0);
  out.entropy = -(all.exp() * finite).sum(-1);
  return out;
}

PolicyLossResult ComputePolicyLoss(const PolicyTokens& t,
                                   const PolicyLoss& config,
                                   double entropy_bonus) {
  // A ratio beyond e^20 is a bug or a divergence; keep it finite.
  const Tensor delta = (t.logprob - t.old_logprob).clamp(-20, 20);
  const Tensor ratio = delta.exp();
  const Tensor clipped =
      ratio.clamp(1 - config.clip_low(), 1 + config.clip_high());
  Tensor importance = torch::ones_like(t.advantage);
  if (config.importance_cap() > 0) {
    importance = (t.old_logprob - t.behavior_logprob)
                     .clamp(-20, 20)
                     .exp()
                     .clamp_max(config.importance_cap());
  }
  const Tensor gain =
      torch::minimum(ratio * t.advantage, clipped * t.advantage) * importance;
  PolicyLossResult out;
  out.loss = -(gain * t.weight).sum();
  const Tensor anchor =
      config.kl_to_reference() ? t.reference_logprob : t.old_logprob;
  if (config.kl_beta() > 0) {
    const Tensor d = (anchor - t.logprob).clamp(-20, 20);
    out.loss = out.loss +
               config.kl_beta() * ((d.exp() - d - 1) * t.weight).sum();
  }
  if (entropy_bonus > 0) {
    out.loss = out.loss - entropy_bonus * (t.entropy * t.weight).sum();
  }
  const Tensor behind = (t.behavior_logprob - t.logprob).detach().clamp(-20, 20);
  out.kl_sum = (behind.exp() - behind - 1).sum().item<double>();
  out.clipped = (ratio.detach() != clipped.detach()).sum().item<double>();
  out.tokens = static_cast<double>(t.logprob.size(0));
  return out;
}

std::vector<float> TokenWeights(const std::vector<int64_t>& lengths,
                                const std::vector<int64_t>& response_of_token,
                                const PolicyLoss& config, double total,
                                double responses) {
  std::vector<float> out;
  out.reserve(response_of_token.size());
  for (const int64_t r : response_of_token) {
    double w = 0;
    switch (config.normalizer()) {
      case SEQ_MEAN:
        w = 1.0 / (responses * std::max<int64_t>(1, lengths[r]));
        break;
      case CONSTANT:
        w = 1.0 / (responses * config.constant_length());
        break;
      default:  // TOKEN_MEAN
        w = 1.0 / total;
    }
    out.push_back(static_cast<float>(w));
  }
  return out;
}

}  // namespace dice
