#include "learner/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/rng.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

using torch::Tensor;

// Sums over tokens that the ranks add up.
enum Sum { kLoss, kKl, kClipped, kEntropy, kTokens, kNumSums };

TrainGroup ToGroup(const TrainBatchGroup& group) {
  TrainGroup out;
  out.prompt.assign(group.prompt().begin(), group.prompt().end());
  for (const TrainBatchSequence& s : group.responses()) {
    out.responses.push_back({{s.tokens().begin(), s.tokens().end()},
                             {s.steps().begin(), s.steps().end()},
                             s.num_trained()});
  }
  return out;
}

int64_t LossTokens(const TrainBatchSequence& s) {
  int64_t n = 0;
  for (int i = 0; i < s.num_trained(); ++i) n += s.steps(i) > 0;
  return n;
}

TrainBatchGroup EmptyLike(const TrainBatchGroup& group) {
  TrainBatchGroup out;
  *out.mutable_prompt() = group.prompt();
  return out;
}

// One minibatch of `batch`: every response belongs to one, by a seeded draw.
TrainBatch Minibatch(const TrainBatch& batch, int index, int count) {
  TrainBatch out = batch;
  out.clear_groups();
  Rng rng{StreamKey(batch.shuffle_seed())};
  for (const TrainBatchGroup& g : batch.groups()) {
    TrainBatchGroup part = EmptyLike(g);
    for (const TrainBatchSequence& s : g.responses()) {
      if (static_cast<int>(rng.Below(count)) == index) {
        *part.add_responses() = s;
      }
    }
    if (part.responses_size() > 0) *out.add_groups() = std::move(part);
  }
  return out;
}

// Weights of the loss positions of one SFT piece.
Tensor SftWeights(const TrainBatch& batch, const TrainRows& rows,
                  const std::vector<TrainBatchGroup>& piece) {
  std::vector<float> out;
  for (const LossPosition& p : rows.losses) {
    out.push_back(static_cast<float>(
        piece[p.group].responses(p.response).weights(p.token) /
        batch.label_tokens()));
  }
  return torch::tensor(out);
}

}  // namespace

struct Trainer::Totals {
  explicit Totals(const TrainBatch& batch) {
    for (const TrainBatchGroup& g : batch.groups()) {
      for (const TrainBatchSequence& s : g.responses()) {
        tokens += static_cast<double>(LossTokens(s));
      }
      responses += g.responses_size();
    }
  }
  double tokens = 0, responses = 0;  // over all ranks
};

std::vector<TrainBatchGroup> ShareOfRank(const TrainBatch& batch, int rank,
                                         int size, const ModelConfig& config) {
  if (size == 1) return {batch.groups().begin(), batch.groups().end()};
  std::vector<std::vector<int64_t>> costs;
  int64_t total = 0;
  for (const TrainBatchGroup& g : batch.groups()) {
    costs.push_back(RowCosts(ToGroup(g), config));
    for (const int64_t c : costs.back()) total += c;
  }
  // A response belongs to the rank in whose range of rows its first row lies;
  // ones that cost nothing stay with the one before them.
  std::vector<TrainBatchGroup> out;
  int64_t at = 0;
  int owner = 0;
  for (int g = 0; g < batch.groups_size(); ++g) {
    TrainBatchGroup part = EmptyLike(batch.groups(g));
    for (int r = 0; r < batch.groups(g).responses_size(); ++r) {
      const int64_t cost = costs[g][r];
      if (cost > 0) owner = static_cast<int>(at * size / total);
      if (owner == rank) *part.add_responses() = batch.groups(g).responses(r);
      at += cost;
    }
    if (part.responses_size() > 0) out.push_back(std::move(part));
  }
  return out;
}

Trainer::Trainer(DiffusionLm& lm, ProcessGroup& group, const Options& options)
    : lm_(lm),
      group_(group),
      options_(options),
      optimizer_(lm.parameters(), Optimizer()) {}

std::vector<std::vector<TrainBatchGroup>> Trainer::Pieces(
    const std::vector<TrainBatchGroup>& share) const {
  std::vector<std::vector<TrainBatchGroup>> out;
  int64_t rows = options_.max_rows;
  for (const TrainBatchGroup& g : share) {
    const auto costs = RowCosts(ToGroup(g), lm_.config());
    TrainBatchGroup part = EmptyLike(g);
    for (int r = 0; r < g.responses_size(); ++r) {
      if (out.empty() || rows + costs[r] > options_.max_rows) {
        if (part.responses_size() > 0) {
          out.back().push_back(std::exchange(part, EmptyLike(g)));
        }
        out.emplace_back();
        rows = 0;
      }
      rows += costs[r];
      *part.add_responses() = g.responses(r);
    }
    if (part.responses_size() > 0) out.back().push_back(std::move(part));
  }
  return out;
}

Tensor Trainer::Accumulate(const TrainBatch& batch, const Totals& totals,
                           const std::vector<TrainBatchGroup>& piece) const {
  Tensor sums = torch::zeros({kNumSums}, torch::kFloat64);
  std::vector<TrainGroup> groups;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int64_t>> index(piece.size());
  for (size_t g = 0; g < piece.size(); ++g) {
    groups.push_back(ToGroup(piece[g]));
    for (const TrainBatchSequence& s : piece[g].responses()) {
      index[g].push_back(static_cast<int64_t>(lengths.size()));
      lengths.push_back(LossTokens(s));
    }
  }
  const TrainRows rows = BuildSharedRows(groups, lm_.config());
  if (rows.losses.empty()) return sums;
  sums[kTokens] = static_cast<double>(rows.losses.size());
  if (batch.kind() == TrainBatch::SFT) {
    const TokenScores scores = ScoreTokens(lm_, rows, {.entropy = false});
    const Tensor loss =
        -(scores.logprob * SftWeights(batch, rows, piece)).sum();
    loss.backward();
    sums[kLoss] = loss.item<double>();
    return sums;
  }
  const TokenScores scores = ScoreTokens(lm_, rows);
  std::vector<float> advantage, behavior, old;
  std::vector<int64_t> response_of;
  for (const LossPosition& p : rows.losses) {
    const TrainBatchSequence& s = piece[p.group].responses(p.response);
    response_of.push_back(index[p.group][p.response]);
    advantage.push_back(s.advantage());
    behavior.push_back(s.behavior_logprobs(p.token));
    if (s.old_logprobs_size() > 0) old.push_back(s.old_logprobs(p.token));
  }
  PolicyTokens t;
  t.logprob = scores.logprob;
  // With one minibatch the policy before the update is this one: ratio = 1.
  t.old_logprob =
      old.empty() ? scores.logprob.detach() : torch::tensor(old);
  t.behavior_logprob = torch::tensor(behavior);
  if (reference_ != nullptr) {
    torch::NoGradGuard no_grad;
    t.reference_logprob =
        ScoreTokens(*reference_, rows, {.entropy = false}).logprob;
  }
  t.entropy = scores.entropy;
  t.advantage = torch::tensor(advantage);
  t.weight = torch::tensor(TokenWeights(lengths, response_of, batch.loss(),
                                        totals.tokens, totals.responses));
  const PolicyLossResult r =
      ComputePolicyLoss(t, batch.loss(), batch.entropy_bonus());
  r.loss.backward();
  sums[kLoss] = r.loss.item<double>();
  sums[kKl] = r.kl_sum;
  sums[kClipped] = r.clipped;
  sums[kEntropy] = scores.entropy.detach().sum().item<double>();
  return sums;
}

absl::StatusOr<UpdateStats> Trainer::Update(
    const TrainBatch& batch, const std::vector<TrainBatchGroup>& share) {
  const Totals totals(batch);
  Tensor sums = torch::zeros({kNumSums}, torch::kFloat64);
  for (const auto& piece : Pieces(share)) {
    sums += Accumulate(batch, totals, piece);
  }
  const Tensor gradient = optimizer_.TakeGradient();
  DICE_RETURN_IF_ERROR(group_.AllReduceSum(gradient));
  DICE_RETURN_IF_ERROR(group_.AllReduceSum(sums));
  UpdateStats stats;
  stats.grad_norm = optimizer_.Step(gradient, batch.lr());
  if (!std::isfinite(stats.grad_norm)) {
    return absl::InternalError("the gradient is not finite; no update made");
  }
  const double n = std::max(1.0, sums[kTokens].item<double>());
  stats.loss_tokens = sums[kTokens].item<int64_t>();
  stats.loss = sums[kLoss].item<double>();
  stats.kl = sums[kKl].item<double>() / n;
  stats.clip_fraction = sums[kClipped].item<double>() / n;
  stats.entropy = sums[kEntropy].item<double>() / n;
  return stats;
}

void Trainer::RecordOldLogprobs(std::vector<TrainBatchGroup>& share) const {
  torch::NoGradGuard no_grad;
  for (TrainBatchGroup& g : share) {
    for (TrainBatchSequence& s : *g.mutable_responses()) {
      s.mutable_old_logprobs()->Resize(s.tokens_size(), 0);
    }
    const TrainRows rows = BuildSharedRows({ToGroup(g)}, lm_.config());
    if (rows.losses.empty()) continue;
    const Tensor logprob = ScoreTokens(lm_, rows, {.entropy = false}).logprob;
    const float* values = logprob.data_ptr<float>();
    for (size_t i = 0; i < rows.losses.size(); ++i) {
      const LossPosition& p = rows.losses[i];
      g.mutable_responses(p.response)->set_old_logprobs(p.token, values[i]);
    }
  }
}

absl::Status Trainer::BeginStage(const TrainBatch& batch) {
  optimizer_.Reset(batch.optimizer());
  reference_.reset();
  if (batch.loss().kl_beta() <= 0 || !batch.loss().kl_to_reference()) {
    return absl::OkStatus();
  }
  DICE_ASSIGN_OR_RETURN(const std::string bytes, lm_.SerializeWeights());
  return SetReference(bytes);
}

absl::Status Trainer::SetReference(const std::string& weights) {
  const auto dtype = lm_.head_weight().scalar_type();
  DICE_ASSIGN_OR_RETURN(reference_,
                        DiffusionLm::Create(lm_.config(), 0, dtype));
  return reference_->LoadWeights(weights);
}

absl::StatusOr<Trainer::State> Trainer::GetState() const {
  State out;
  DICE_ASSIGN_OR_RETURN(out.optimizer,
                        SerializeSafetensors(optimizer_.State()));
  if (reference_ != nullptr) {
    DICE_ASSIGN_OR_RETURN(out.reference, reference_->SerializeWeights());
  }
  return out;
}

absl::Status Trainer::SetState(const State& state) {
  DICE_ASSIGN_OR_RETURN(const NamedTensors tensors,
                        ParseSafetensors(state.optimizer));
  DICE_RETURN_IF_ERROR(optimizer_.SetState(tensors));
  if (state.reference.empty()) return absl::OkStatus();
  return SetReference(state.reference);
}

absl::Status Trainer::Synchronize() {
  if (group_.size() == 1) return absl::OkStatus();
  std::string weights;
  State state;
  if (group_.rank() == 0) {
    DICE_ASSIGN_OR_RETURN(weights, lm_.SerializeWeights());
    DICE_ASSIGN_OR_RETURN(state, GetState());
  }
  DICE_ASSIGN_OR_RETURN(weights, group_.Broadcast(weights));
  DICE_ASSIGN_OR_RETURN(state.optimizer, group_.Broadcast(state.optimizer));
  DICE_ASSIGN_OR_RETURN(state.reference, group_.Broadcast(state.reference));
  if (group_.rank() == 0) return absl::OkStatus();
  DICE_RETURN_IF_ERROR(lm_.LoadWeights(weights)) << "from rank 0";
  return SetState(state);
}

absl::StatusOr<UpdateStats> Trainer::Apply(const TrainBatch& batch) {
  switch (batch.kind()) {
    case TrainBatch::BEGIN_STAGE: {
      DICE_RETURN_IF_ERROR(BeginStage(batch));
      return UpdateStats();
    }
    case TrainBatch::SYNCHRONIZE: {
      DICE_RETURN_IF_ERROR(Synchronize());
      return UpdateStats();
    }
    case TrainBatch::SFT:
    case TrainBatch::POLICY:
      break;
    default:
      return UpdateStats();
  }
  const int count = std::max(1, batch.minibatches());
  const auto share = [&](const TrainBatch& part) {
    return ShareOfRank(part, group_.rank(), group_.size(), lm_.config());
  };
  if (count == 1) return Update(batch, share(batch));
  std::vector<TrainBatch> parts;
  std::vector<std::vector<TrainBatchGroup>> shares;
  for (int i = 0; i < count; ++i) {
    parts.push_back(Minibatch(batch, i, count));
    shares.push_back(share(parts.back()));
    RecordOldLogprobs(shares.back());
  }
  UpdateStats last;
  for (int i = 0; i < count; ++i) {
    DICE_ASSIGN_OR_RETURN(last, Update(parts[i], shares[i]));
  }
  return last;
}

absl::StatusOr<UpdateStats> Trainer::Run(const TrainBatch& batch) {
  if (group_.size() > 1) {
    DICE_RETURN_IF_ERROR(
        group_.Broadcast(batch.SerializeAsString()).status());
  }
  return Apply(batch);
}

absl::Status Trainer::Serve() {
  while (true) {
    DICE_ASSIGN_OR_RETURN(const std::string bytes, group_.Broadcast(""));
    TrainBatch batch;
    if (!batch.ParseFromString(bytes)) {
      return absl::InternalError("rank 0 sent an unreadable batch");
    }
    if (batch.kind() == TrainBatch::STOP) return absl::OkStatus();
    DICE_RETURN_IF_ERROR(Apply(batch).status());
  }
}

}  // namespace dice
