#include "learner/loss.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/learner/tiny_model.h"

namespace dice {
namespace {

PolicyLoss Config() {
  PolicyLoss c;
  c.set_clip_low(0.2);
  c.set_clip_high(0.2);
  c.set_negative_advantage_scale(1);
  return c;
}

// The objective as a function of the weights, at fixed data.
torch::Tensor Objective(const DiffusionLm& lm, const TrainRows& rows,
                        const PolicyLoss& config, double bonus) {
  const TokenScores scores = ScoreTokens(lm, rows);
  const int64_t n = scores.logprob.size(0);
  PolicyTokens t;
  t.logprob = scores.logprob;
  t.entropy = scores.entropy;
  const torch::Tensor i = torch::arange(n, torch::kFloat32);
  // Some ratios inside, some outside of the clip range.
  t.old_logprob = -2.2 + 0.05 * i;
  t.behavior_logprob = -2.3 + 0.04 * i;
  t.reference_logprob = t.old_logprob;
  t.advantage = torch::sin(i);
  t.weight = torch::full({n}, 1.0 / n);
  return ComputePolicyLoss(t, config, bonus).loss;
}

TEST(PolicyLossTest, GradientEqualsAFiniteDifferenceOfTheObjective) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 11, torch::kFloat64);
  const TrainRows rows = BuildSharedRows(RandomGroups(5, 3), TinyConfig());
  PolicyLoss c = Config();
  c.set_kl_beta(0.1);
  c.set_importance_cap(2);
  const double bonus = 0.05;
  Objective(*lm, rows, c, bonus).backward();
  Rng rng(3);
  torch::NoGradGuard no_grad;
  for (auto [name, p] : lm->parameters()) {
    // Along a random direction, in central differences.
    torch::Tensor direction = torch::empty_like(p);
    double* d = direction.data_ptr<double>();
    for (int64_t i = 0; i < p.numel(); ++i) d[i] = rng.Normal();
    direction /= direction.norm();
    const double slope = (p.grad() * direction).sum().item<double>();
    const double h = 1e-6;
    p.add_(direction, h);
    const double up = Objective(*lm, rows, c, bonus).item<double>();
    p.add_(direction, -2 * h);
    const double down = Objective(*lm, rows, c, bonus).item<double>();
    p.add_(direction, h);
    EXPECT_NEAR(slope, (up - down) / (2 * h), 1e-6 + 1e-4 * std::abs(slope))
        << name;
  }
}

PolicyTokens One(float lp, float old_lp, float behavior, float advantage) {
  PolicyTokens t;
  t.logprob = torch::tensor({lp}).set_requires_grad(true);
  t.entropy = torch::zeros({1});
  t.old_logprob = torch::tensor({old_lp});
  t.behavior_logprob = torch::tensor({behavior});
  t.advantage = torch::tensor({advantage});
  t.weight = torch::ones({1});
  return t;
}

TEST(PolicyLossTest, ClipsJustOverTheRangeAndNotJustUnder) {
  const auto gradient = [](double ratio, float advantage) {
    PolicyTokens t = One(std::log(ratio), 0, 0, advantage);
    ComputePolicyLoss(t, Config(), 0).loss.backward();
    return t.logprob.grad().item<double>();
  };
  EXPECT_NEAR(gradient(1.19, 1), -1.19, 1e-5);
  EXPECT_EQ(gradient(1.21, 1), 0);
  EXPECT_NEAR(gradient(0.81, -1), 0.81, 1e-5);
  EXPECT_EQ(gradient(0.79, -1), 0);
  // The pessimistic side is never clipped.
  EXPECT_NEAR(gradient(2, -1), 2, 1e-5);
}

TEST(PolicyLossTest, ImportanceWeightIsTruncated) {
  PolicyLoss c = Config();
  c.set_importance_cap(2);
  const auto loss = [&](float behavior) {
    return ComputePolicyLoss(One(-1, -1, behavior, 1), c, 0)
        .loss.item<double>();
  };
  EXPECT_NEAR(loss(-1), -1, 1e-6);
  EXPECT_NEAR(loss(-1.5), -std::exp(0.5), 1e-5);
  EXPECT_NEAR(loss(-3), -2, 1e-6);
}

TEST(TokenWeightsTest, NormalisersGiveTheirMeans) {
  const std::vector<int64_t> lengths = {1, 3};
  const std::vector<int64_t> of = {0, 1, 1, 1};
  PolicyLoss c;
  c.set_normalizer(TOKEN_MEAN);
  EXPECT_FLOAT_EQ(TokenWeights(lengths, of, c, 4, 2)[0], 0.25f);
  c.set_normalizer(SEQ_MEAN);
  EXPECT_FLOAT_EQ(TokenWeights(lengths, of, c, 4, 2)[0], 0.5f);
  EXPECT_FLOAT_EQ(TokenWeights(lengths, of, c, 4, 2)[1], 1.0f / 6);
  c.set_normalizer(CONSTANT);
  c.set_constant_length(10);
  EXPECT_FLOAT_EQ(TokenWeights(lengths, of, c, 4, 2)[1], 0.05f);
}

TEST(EntropyBonusTest, DecaysToNothing) {
  PolicyLoss c;
  c.set_entropy_bonus(0.1);
  EXPECT_DOUBLE_EQ(EntropyBonus(c, 1000), 0.1);
  c.set_entropy_bonus_decay_steps(10);
  EXPECT_DOUBLE_EQ(EntropyBonus(c, 0), 0.1);
  EXPECT_DOUBLE_EQ(EntropyBonus(c, 5), 0.05);
  EXPECT_DOUBLE_EQ(EntropyBonus(c, 11), 0);
}

// Against the textbook formula over whole logits.
TEST(ScoreTokensTest, EqualsLogSoftmaxOverAllowedIds) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 2);
  const TrainRows rows = BuildSharedRows(RandomGroups(1, 2), TinyConfig());
  const TokenScores scores = ScoreTokens(*lm, rows);
  const torch::Tensor logits = lm->Head(lm->Hidden(rows.layout)).slice(1, 0, 12);
  const torch::Tensor all = torch::log_softmax(logits, -1);
  const torch::Tensor h = -(all.exp() * all).sum(-1);
  for (size_t i = 0; i < rows.losses.size(); ++i) {
    const LossPosition& p = rows.losses[i];
    EXPECT_NEAR(scores.logprob[i].item<double>(),
                all[p.row][p.target].item<double>(), 1e-5);
    EXPECT_NEAR(scores.entropy[i].item<double>(), h[p.row].item<double>(),
                1e-5);
  }
}

TEST(ScoreTokensTest, DisallowedIdsHaveNoMass) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 2);
  const TrainRows rows = BuildSharedRows(RandomGroups(1, 2), TinyConfig());
  const TokenScores scores = ScoreTokens(*lm, rows);
  EXPECT_TRUE(scores.logprob.isfinite().all().item<bool>());
  EXPECT_LE(scores.entropy.max().item<double>(), std::log(12.0) + 1e-5);
}

}  // namespace
}  // namespace dice
