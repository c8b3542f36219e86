#include "learner/loss.h"

#include <algorithm>
#include <numeric>

namespace dice {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// One piece of the head: rows [row, row_end) of the hidden states, and the loss
// positions [at, at_end) on them.
struct Piece {
  int64_t row, row_end, at, at_end;
};

// `row_of` [N] is sorted and names every row.
std::vector<Piece> CutPieces(const Tensor& row_of, int64_t rows, int64_t step) {
  std::vector<Piece> out;
  const int64_t* r = row_of.data_ptr<int64_t>();
  const int64_t n = row_of.size(0);
  for (int64_t row = 0, at = 0; row < rows; row += step) {
    const int64_t end = std::min(rows, row + step);
    const int64_t at_end = std::lower_bound(r + at, r + n, end) - r;
    out.push_back({row, end, at, at_end});
    at = at_end;
  }
  return out;
}

// Logits over allowed ids in at least fp32: [rows, V], -inf where disallowed.
Tensor Logits(const Tensor& hidden, const Tensor& head, const Tensor& mask) {
  const Tensor z = torch::linear(hidden, head);
  return z.to(at::promote_types(z.scalar_type(), torch::kFloat32)) + mask;
}

// Cross-entropy and entropy of rows through the head, without keeping anything
// of width V: the backward pass makes the logits again.
class HeadScores : public torch::autograd::Function<HeadScores> {
 public:
  // hidden [U, C], head [V, C], mask [V], row_of [N] sorted, target [N].
  // Returns logprob [N] and entropy [U] (zeros unless `entropy`).
  static tensor_list forward(AutogradContext* ctx, const Tensor& hidden,
                             const Tensor& head, const Tensor& mask,
                             const Tensor& row_of, const Tensor& target,
                             bool entropy, int64_t max_logits) {
    const int64_t v = head.size(0), rows = hidden.size(0);
    const int64_t step = std::max<int64_t>(1, max_logits / v);
    std::vector<Tensor> logprobs, norms, entropies;
    for (const Piece& p : CutPieces(row_of, rows, step)) {
      const Tensor z = Logits(hidden.slice(0, p.row, p.row_end), head, mask);
      const Tensor norm = z.logsumexp(-1);
      const Tensor local = row_of.slice(0, p.at, p.at_end) - p.row;
      const Tensor flat = local * v + target.slice(0, p.at, p.at_end);
      logprobs.push_back(z.view(-1).index_select(0, flat) -
                         norm.index_select(0, local));
      norms.push_back(norm);
      if (entropy) {
        // p log p of a disallowed id is 0 * -big = 0.
        const Tensor log_p = (z - norm.unsqueeze(1)).clamp_min(-1e30);
        entropies.push_back(-(log_p.exp() * log_p).sum(-1));
      }
    }
    const Tensor norm = torch::cat(norms);
    const Tensor h = entropy ? torch::cat(entropies) : torch::zeros_like(norm);
    ctx->save_for_backward({hidden, head, mask, row_of, target, norm, h});
    ctx->saved_data["step"] = step;
    ctx->set_materialize_grads(false);
    return {torch::cat(logprobs), h};
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &head = saved[1], &mask = saved[2];
    const Tensor &row_of = saved[3], &target = saved[4], &norm = saved[5];
    const Tensor& h = saved[6];
    const int64_t v = head.size(0);
    Tensor d_hidden = torch::empty_like(hidden);
    Tensor d_head = torch::zeros_like(head, norm.scalar_type());
    for (const Piece& p : CutPieces(row_of, hidden.size(0),
                                    ctx->saved_data["step"].toInt())) {
      const Tensor x = hidden.slice(0, p.row, p.row_end);
      const Tensor log_p = Logits(x, head, mask) -
                           norm.slice(0, p.row, p.row_end).unsqueeze(1);
      const Tensor prob = log_p.exp();
      Tensor d = torch::zeros_like(prob);
      if (grads[0].defined()) {
        // d logprob / d z = onehot(target) - p
        const Tensor g = grads[0].slice(0, p.at, p.at_end);
        const Tensor local = row_of.slice(0, p.at, p.at_end) - p.row;
        const Tensor sums =
            torch::zeros({x.size(0)}, g.options()).index_add_(0, local, g);
        d.addcmul_(prob, sums.unsqueeze(1), -1);
        d.view(-1).index_add_(
            0, local * v + target.slice(0, p.at, p.at_end), g);
      }
      if (grads[1].defined()) {
        // d H / d z = -p (log p + H)
        const Tensor g = grads[1].slice(0, p.row, p.row_end).unsqueeze(1);
        const Tensor inner = log_p.clamp_min(-1e30) +
                             h.slice(0, p.row, p.row_end).unsqueeze(1);
        d.addcmul_(prob * inner, g, -1);
      }
      const Tensor narrow = d.to(hidden.scalar_type());
      d_hidden.slice(0, p.row, p.row_end).copy_(narrow.matmul(head));
      d_head.add_(narrow.t().matmul(x));
    }
    return {d_hidden, d_head.to(head.scalar_type()), Tensor(), Tensor(),
            Tensor(), Tensor(), Tensor()};
  }
};

// The distinct rows of `losses`, ascending, and the positions sorted by row.
struct SortedPositions {
  std::vector<int64_t> rows;    // [U]
  std::vector<int64_t> row_of;  // [N] index into rows, ascending
  std::vector<int64_t> target;  // [N]
  std::vector<int64_t> place;   // [N] where position i of `losses` went
};

SortedPositions SortPositions(const std::vector<LossPosition>& losses) {
  std::vector<int64_t> order(losses.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return losses[a].row < losses[b].row;
  });
  SortedPositions out;
  out.place.resize(losses.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const LossPosition& p = losses[order[i]];
    if (out.rows.empty() || out.rows.back() != p.row) out.rows.push_back(p.row);
    out.row_of.push_back(static_cast<int64_t>(out.rows.size()) - 1);
    out.target.push_back(p.target);
    out.place[order[i]] = static_cast<int64_t>(i);
  }
  return out;
}

}  // namespace

TokenScores ScoreTokens(const DiffusionLm& lm, const TrainRows& rows,
                        const ScoreOptions& options) {
  const SortedPositions sorted = SortPositions(rows.losses);
  const Tensor row_of = torch::tensor(sorted.row_of, torch::kInt64);
  const Tensor place = torch::tensor(sorted.place, torch::kInt64);
  const Tensor hidden = lm.Hidden(rows.layout)
                            .index_select(0, torch::tensor(sorted.rows,
                                                           torch::kInt64));
  const tensor_list scores = HeadScores::apply(
      hidden, lm.head_weight(), lm.allowed_ids_mask(), row_of,
      torch::tensor(sorted.target, torch::kInt64), options.entropy,
      options.max_logits);
  TokenScores out;
  out.logprob = scores[0].index_select(0, place);
  if (options.entropy) {
    out.entropy = scores[1].index_select(0, row_of.index_select(0, place));
  }
  return out;
}

PolicyLossResult ComputePolicyLoss(const PolicyTokens& t,
                                   const PolicyLoss& config,
                                   double entropy_bonus) {
  // A ratio beyond e^20 is a bug or a divergence; keep it finite.
  const Tensor ratio = (t.logprob - t.old_logprob).clamp(-20, 20).exp();
  const Tensor clipped =
      ratio.clamp(1 - config.clip_low(), 1 + config.clip_high());
  Tensor gain = torch::minimum(ratio * t.advantage, clipped * t.advantage);
  if (config.importance_cap() > 0) {
    gain = gain * (t.old_logprob - t.behavior_logprob)
                      .clamp(-20, 20)
                      .exp()
                      .clamp_max(config.importance_cap());
  }
  PolicyLossResult out;
  out.loss = -(gain * t.weight).sum();
  if (config.kl_beta() > 0) {
    const Tensor& anchor =
        config.kl_to_reference() ? t.reference_logprob : t.old_logprob;
    const Tensor d = (anchor - t.logprob).clamp(-20, 20);
    out.loss = out.loss +
               config.kl_beta() * ((d.exp() - d - 1) * t.weight).sum();
  }
  if (entropy_bonus > 0) {
    out.loss = out.loss - entropy_bonus * (t.entropy * t.weight).sum();
  }
  const Tensor behind =
      (t.behavior_logprob - t.logprob.detach()).clamp(-20, 20);
  out.kl_sum = (behind.exp() - behind - 1).sum().item<double>();
  out.clipped = (ratio.detach() != clipped.detach()).sum().item<double>();
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

double EntropyBonus(const PolicyLoss& config, int64_t step) {
  if (config.entropy_bonus_decay_steps() == 0) return config.entropy_bonus();
  const double left =
      1 - static_cast<double>(step) / config.entropy_bonus_decay_steps();
  return config.entropy_bonus() * std::max(0.0, left);
}

}  // namespace dice
