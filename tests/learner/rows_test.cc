#include "learner/rows.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "learner/loss.h"
#include "tests/learner/tiny_model.h"

namespace dice {
namespace {

using Key = std::tuple<int32_t, int32_t, int32_t>;  // group, response, token

std::map<Key, int64_t> Places(const TrainRows& rows) {
  std::map<Key, int64_t> out;
  for (size_t i = 0; i < rows.losses.size(); ++i) {
    const LossPosition& p = rows.losses[i];
    EXPECT_TRUE(out.emplace(Key{p.group, p.response, p.token}, i).second)
        << "a loss position twice";
  }
  return out;
}

TEST(RowsTest, EverySampledTokenUpToTheStopIsALossPositionExactlyOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto groups = RandomGroups(seed, 4);
    std::set<Key> expected;
    for (int g = 0; g < 3; ++g) {
      for (int r = 0; r < 4; ++r) {
        const TrainSequence& s = groups[g].responses[r];
        for (int i = 0; i < s.num_trained; ++i) {
          if (s.steps[i] > 0) expected.emplace(g, r, i);
        }
      }
    }
    for (const TrainRows& rows : {BuildSharedRows(groups, TinyConfig()),
                                  BuildPlainRows(groups, TinyConfig())}) {
      std::set<Key> got;
      for (const auto& [key, i] : Places(rows)) got.insert(key);
      EXPECT_EQ(got, expected);
      for (const LossPosition& p : rows.losses) {
        EXPECT_EQ(rows.layout.ids[p.row].item<int64_t>(), 12)
            << "a loss row must be masked in its own input";
        EXPECT_EQ(p.target, groups[p.group].responses[p.response]
                                .tokens[p.token]);
      }
    }
  }
}

// Loss and every parameter's gradient of shared rows equal the plain padded
// rows of the reference formulation.
void ExpectSameLossAndGradient(const DiffusionLm& lm,
                               const std::vector<TrainGroup>& groups) {
  std::vector<torch::Tensor> gradients[2];
  double loss[2];
  int64_t rows_used[2];
  const TrainRows variants[2] = {BuildSharedRows(groups, TinyConfig()),
                                 BuildPlainRows(groups, TinyConfig())};
  for (int v = 0; v < 2; ++v) {
    rows_used[v] = variants[v].layout.ids.size(0);
    // The shared variant also cuts the head into small pieces.
    const TokenScores scores =
        ScoreTokens(lm, variants[v],
                    {.max_logits = v == 0 ? 50 : int64_t{1} << 26});
    // Weights that depend on the token, not on its place.
    std::vector<float> w, u;
    for (const LossPosition& p : variants[v].losses) {
      w.push_back(0.1f + 0.3f * p.token + 0.7f * p.response - p.group);
      u.push_back(0.2f - 0.1f * p.token + 0.3f * p.response);
    }
    const torch::Tensor l = ((scores.logprob * torch::tensor(w)).sum() +
                             (scores.entropy * torch::tensor(u)).sum()) /
                            static_cast<double>(w.size());
    loss[v] = l.item<double>();
    l.backward();
    for (auto [name, p] : lm.parameters()) {
      gradients[v].push_back(p.grad().clone());
      p.mutable_grad().zero_();
    }
  }
  EXPECT_NEAR(loss[0], loss[1], 1e-5 * std::abs(loss[1]) + 1e-6);
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    const double scale = gradients[1][i].abs().max().item<double>();
    EXPECT_LE((gradients[0][i] - gradients[1][i]).abs().max().item<double>(),
              1e-5 * scale + 1e-6)
        << lm.parameters()[i].first;
  }
  EXPECT_LT(rows_used[0], rows_used[1]);
}

TEST(RowsTest, SharedRowsGiveTheLossAndGradientOfPlainRows) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 4);
  for (const int responses : {1, 2, 5, 16}) {
    ExpectSameLossAndGradient(*lm, RandomGroups(100 + responses, responses));
  }
}

// Equal and partly equal responses share rows, with unequal weights.
TEST(RowsTest, BlocksThatResponsesHaveInCommonAreComputedOnce) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 4);
  auto groups = RandomGroups(7, 3);
  int64_t whole = 0, partly = 0;
  for (TrainGroup& g : groups) {
    g.responses.push_back(g.responses[0]);
    TrainSequence other = g.responses[1];
    other.tokens.back() = (other.tokens.back() + 1) % 12;
    g.responses.push_back(other);
    TrainSequence shorter = g.responses[2];
    shorter.num_trained = 1 + shorter.num_trained / 2;
    g.responses.push_back(shorter);
    const auto costs = RowCosts(g, TinyConfig());
    EXPECT_EQ(costs[3], 0) << "a duplicate";
    whole += costs[1];
    partly += costs[4];
    EXPECT_EQ(costs[5], 0) << "a prefix";
  }
  EXPECT_LT(partly, whole);
  ExpectSameLossAndGradient(*lm, groups);
  int64_t cost = 0;
  for (const TrainGroup& g : groups) {
    for (const int64_t c : RowCosts(g, TinyConfig())) cost += c;
  }
  EXPECT_EQ(BuildSharedRows(groups, TinyConfig()).layout.ids.size(0), cost);
}

TEST(RowsTest, ForcedTokensHaveNoGradient) {
  auto lm = *DiffusionLm::Create(TinyConfig(), 4);
  TrainGroup g;
  g.prompt = {1, 2, 3};
  TrainSequence s;
  s.tokens = {4, 5, 6, 7, 8};
  s.steps = {-1, -1, -1, -1, -1};
  s.num_trained = 5;
  g.responses = {s};
  EXPECT_TRUE(BuildSharedRows({g}, TinyConfig()).losses.empty());
  EXPECT_EQ(CountLossTokens(s), 0);
}

}  // namespace
}  // namespace dice
