#include "actor/sampler.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

ModelConfig Tiny() {
  ModelConfig c;
  c.vocab_size = 14;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_layers = 2;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.head_dim = 8;
  c.rope_theta = 1e4;
  c.block_size = 4;
  c.mask_token_id = 12;
  c.num_real_tokens = 13;  // id 13 is a padding row
  c.eos_token_ids = {0};
  c.embedding_init_std = 1;
  c.head_init_std = 0.5;
  return c;
}

SamplingConfig Config(CommitStrategy strategy, int steps = 4) {
  SamplingConfig c;
  c.set_strategy(strategy);
  c.set_temperature(1);
  c.set_confidence_threshold(0.9);
  c.set_entropy_bound(1);
  c.set_steps_per_block(steps);
  c.set_max_response_tokens(12);
  return c;
}

std::map<uint64_t, Response> SampleAll(
    DiffusionLm& lm, int64_t batch,
    const std::vector<Sampler::Request>& requests) {
  Sampler sampler(lm, {.max_batch = batch});
  for (const auto& r : requests) sampler.Add(r);
  std::map<uint64_t, Response> out;
  while (sampler.pending() > 0) {
    sampler.Step([&](uint64_t id, Response r) { out[id] = std::move(r); });
  }
  return out;
}

Sampler::Request Request(uint64_t id, SamplingConfig config, int prompt = 6) {
  Sampler::Request r;
  r.id = id;
  for (int i = 0; i < prompt; ++i) r.prompt.push_back(1 + (i * 7 + id) % 11);
  r.key = StreamKey(5).Derive({id});
  r.config = config;
  return r;
}

TEST(SamplerTest, ASequenceDoesNotDependOnItsNeighbours) {
  auto lm = *DiffusionLm::Create(Tiny(), 1);
  std::vector<Sampler::Request> requests;
  for (int i = 0; i < 9; ++i) {
    requests.push_back(Request(i, Config(DYNAMIC), 3 + i));
  }
  const auto together = SampleAll(*lm, 4, requests);
  ASSERT_EQ(together.size(), 9u);
  for (const auto& r : requests) {
    const Response alone = SampleAll(*lm, 1, {r}).at(r.id);
    EXPECT_THAT(together.at(r.id).token_ids(),
                testing::ElementsAreArray(alone.token_ids()));
    EXPECT_THAT(together.at(r.id).steps(),
                testing::ElementsAreArray(alone.steps()));
  }
}

TEST(SamplerTest, ForcedTokensComeBackUnchangedAndUntrainable) {
  auto lm = *DiffusionLm::Create(Tiny(), 1);
  for (int forced = 1; forced < 7; ++forced) {
    Sampler::Request r = Request(forced, Config(DYNAMIC), 5);
    for (int i = 0; i < forced; ++i) r.forced.push_back(1 + i);
    const Response out = SampleAll(*lm, 1, {r}).at(forced);
    for (int i = 0; i < forced; ++i) {
      EXPECT_EQ(out.token_ids(i), 1 + i);
      EXPECT_EQ(out.steps(i), -1);
      EXPECT_EQ(out.logprobs(i), 0);
    }
    for (int i = forced; i < out.steps_size(); ++i) EXPECT_GT(out.steps(i), 0);
    EXPECT_EQ((out.token_ids_size() + 5) % 4, 0) << "whole last block";
  }
}

TEST(SamplerTest, NeverSamplesMaskOrPaddingAndCapsAtABlockEnd) {
  auto lm = *DiffusionLm::Create(Tiny(), 2);
  for (int max :
       {5, 6, 7}) {  // prompt 6: the cap rounds up to position 12, 12, 16
    SamplingConfig c = Config(STATIC);
    c.set_max_response_tokens(max);
    for (int i = 0; i < 40; ++i) {
      const Response r = SampleAll(*lm, 1, {Request(i, c)}).at(i);
      for (int id : r.token_ids()) EXPECT_LT(id, 12);
      EXPECT_LE(r.token_ids_size(), max <= 6 ? 6 : 10);
      if (r.stop_reason() == "eos") {
        EXPECT_EQ(r.token_ids(r.num_trained() - 1), 0);
      } else {
        EXPECT_EQ(r.token_ids_size(), max <= 6 ? 6 : 10);
        EXPECT_EQ(r.num_trained(), r.token_ids_size());
      }
    }
  }
}

TEST(SamplerTest, RecordedLogprobsEqualARecomputationByThePackedForward) {
  auto lm = *DiffusionLm::Create(Tiny(), 3);
  const Sampler::Request request = Request(3, Config(DYNAMIC), 7);
  const Response r = SampleAll(*lm, 2, {request}).at(3);
  torch::NoGradGuard no_grad;
  // Replay each denoise step: tokens committed at that step or later in the
  // same block are masked, earlier blocks are clean.
  for (int i = 0; i < r.token_ids_size(); ++i) {
    std::vector<int32_t> ids = request.prompt;
    const int64_t block_end = (7 + i) / 4 * 4 + 4;
    for (int j = 0; 7 + j < block_end; ++j) {
      const bool same_block = 7 + j >= block_end - 4;
      ids.push_back(same_block && r.steps(j) >= r.steps(i) ? 12
                                                           : r.token_ids(j));
    }
    const torch::Tensor logits =
        lm->Head(lm->Hidden(BlockCausalLayout({ids}, 4))) +
        lm->allowed_ids_mask();
    const double lp =
        torch::log_softmax(logits[7 + i], 0)[r.token_ids(i)].item<double>();
    EXPECT_NEAR(lp, r.logprobs(i), 1e-4) << "token " << i;
  }
}

TEST(DrawTokenTest, MarginalsPassChiSquareAgainstTheExactDistribution) {
  const int vocab = 8;
  std::vector<float> logits = {0, 1, -1, 2, 0.5, -2, 1.5, -INFINITY};
  std::vector<double> p(vocab);
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += p[i] = std::exp(logits[i]);
  std::vector<int> counts(vocab, 0);
  const int n = 40000;
  const SamplingConfig c = Config(STATIC);
  for (int i = 0; i < n; ++i) {
    ++counts[DrawToken(c, logits.data(), vocab, StreamKey(4).Uniform(i, 0))
                 .token];
  }
  EXPECT_EQ(counts[7], 0);
  double chi = 0;
  for (int i = 0; i < 7; ++i) {
    const double e = n * p[i] / sum;
    chi += (counts[i] - e) * (counts[i] - e) / e;
  }
  EXPECT_LT(chi, 22.46);  // 6 degrees of freedom, p = 0.001
}

TEST(DrawTokenTest, TopKTopPTemperatureAndGreedy) {
  const std::vector<float> logits = {0, 3, 2, 1};
  SamplingConfig c = Config(STATIC);
  c.set_top_k(2);
  for (double u : {0.01, 0.5, 0.99}) {
    const int t = DrawToken(c, logits.data(), 4, u).token;
    EXPECT_TRUE(t == 1 || t == 2);
  }
  c = Config(STATIC);
  c.set_top_p(0.6);  // softmax: 0.032 0.644 0.237 0.087
  EXPECT_EQ(DrawToken(c, logits.data(), 4, 0.99).token, 1);
  c.set_top_p(0.65);
  EXPECT_EQ(DrawToken(c, logits.data(), 4, 0.99).token, 2);
  c = Config(STATIC);
  c.set_temperature(0.01);
  const Draw cold = DrawToken(c, logits.data(), 4, 0.99);
  EXPECT_EQ(cold.token, 1);
  EXPECT_NEAR(std::exp(cold.logprob), 0.644, 1e-3) << "recorded at T = 1";
  c = Config(STATIC);
  c.set_greedy(true);
  EXPECT_EQ(DrawToken(c, logits.data(), 4, 0.99).token, 1);
}

std::vector<int64_t> Chosen(SamplingConfig c, std::vector<double> confidence,
                            std::vector<double> entropy) {
  std::vector<Draw> draws;
  for (size_t i = 0; i < confidence.size(); ++i) {
    Draw d;
    d.index = i;
    d.confidence = confidence[i];
    d.entropy = entropy[i];
    draws.push_back(d);
  }
  std::vector<int64_t> out;
  for (const Draw& d : ChooseCommits(c, 4, draws)) out.push_back(d.index);
  return out;
}

TEST(ChooseCommitsTest, EachStrategyFollowsItsRule) {
  using testing::ElementsAre;
  const std::vector<double> conf = {0.95, 0.2, 0.91, 0.5};
  const std::vector<double> ent = {0.6, 2.0, 0.3, 0.2};
  EXPECT_THAT(Chosen(Config(DYNAMIC), conf, ent), ElementsAre(0, 2));
  EXPECT_THAT(Chosen(Config(DYNAMIC), {0.9, 0.2, 0.1, 0.5}, ent),
              ElementsAre(0))
      << "0.9 is not above the threshold; the minimum is one";
  EXPECT_THAT(Chosen(Config(DYNAMIC, 2), {0.8, 0.2, 0.1, 0.5}, ent),
              ElementsAre(0, 3));
  EXPECT_THAT(Chosen(Config(STATIC, 2), conf, ent), ElementsAre(0, 2));
  EXPECT_THAT(Chosen(Config(STATIC, 4), conf, ent), ElementsAre(0));
  EXPECT_THAT(Chosen(Config(SEQUENTIAL, 2), conf, ent), ElementsAre(0, 1));
  EXPECT_THAT(Chosen(Config(ENTROPY_BOUNDED), conf, ent), ElementsAre(3, 2));
  EXPECT_THAT(Chosen(Config(ENTROPY_BOUNDED), conf, {3, 2, 4, 5}),
              ElementsAre(1))
      << "at least one";
}

TEST(ValidateSamplingTest, RlRefusesWhatBreaksTheImportanceWeight) {
  SamplingConfig c = Config(DYNAMIC);
  EXPECT_TRUE(ValidateSampling(c, true).ok());
  c.set_temperature(0.9);
  EXPECT_TRUE(ValidateSampling(c, false).ok());
  EXPECT_FALSE(ValidateSampling(c, true).ok());
  c = Config(DYNAMIC);
  c.set_top_k(5);
  EXPECT_FALSE(ValidateSampling(c, true).ok());
  c = Config(DYNAMIC);
  c.set_top_p(0.9);
  EXPECT_FALSE(ValidateSampling(c, true).ok());
}

}  // namespace
}  // namespace dice
