#include "common/model/diffusion_lm.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

ModelConfig Small(bool tied, int64_t kv_heads) {
  ModelConfig c;
  c.vocab_size = 37;
  c.hidden_size = 24;
  c.intermediate_size = 40;
  c.num_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = kv_heads;
  c.head_dim = 10;
  c.rope_theta = 1e4;
  c.tie_word_embeddings = tied;
  c.block_size = 4;
  c.mask_token_id = 35;
  c.num_real_tokens = 36;
  c.eos_token_ids = {1};
  c.embedding_init_std = 1;
  c.head_init_std = 0.5;
  return c;
}

std::vector<int32_t> RandomIds(int n, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> out(n);
  for (int32_t& i : out) i = static_cast<int32_t>(rng.Below(36));
  return out;
}

torch::Tensor PythonLogits(const std::string& dir,
                           const std::vector<std::vector<int32_t>>& batch,
                           int64_t rows, int64_t vocab) {
  std::vector<std::string> ids;
  for (const auto& s : batch) ids.push_back(absl::StrJoin(s, ","));
  const std::string out = dir + "/logits.bin";
  auto p = Process::Spawn(
      {.argv = {std::getenv("DICE_PYTHON"),
                std::string(std::getenv("DICE_SOURCE_DIR")) +
                    "/tests/common/model/dense_reference.py",
                dir, absl::StrJoin(ids, ";"), out}});
  EXPECT_TRUE(p.ok() && (*p)->Wait()->ok());
  const std::string bytes = *ReadFile(out);
  torch::Tensor t = torch::empty({rows, vocab}, torch::kFloat32);
  EXPECT_EQ(bytes.size(), t.nbytes());
  std::memcpy(t.data_ptr(), bytes.data(), bytes.size());
  return t;
}

class DiffusionLmParityTest
    : public testing::TestWithParam<std::pair<bool, int64_t>> {};

TEST_P(DiffusionLmParityTest, PackedForwardEqualsIndependentDenseMask) {
  const auto [tied, kv] = GetParam();
  auto lm = *DiffusionLm::Create(Small(tied, kv), 7);
  // Uneven lengths in one packed batch, one longer than a block multiple.
  const std::vector<std::vector<int32_t>> batch = {
      RandomIds(13, 1), RandomIds(8, 2), RandomIds(3, 3)};
  torch::NoGradGuard no_grad;
  const torch::Tensor logits =
      lm->Head(lm->Hidden(BlockCausalLayout(batch, 4)));
  const std::string dir = testing::TempDir() + "/parity" +
                          std::to_string(tied) + std::to_string(kv);
  ASSERT_TRUE(lm->Save(dir).ok());
  const torch::Tensor expected =
      PythonLogits(dir, batch, logits.size(0), logits.size(1));
  EXPECT_LE((expected - logits).abs().max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, DiffusionLmParityTest,
                         testing::Values(std::pair{false, int64_t{2}},
                                         std::pair{true, int64_t{1}},
                                         std::pair{false, int64_t{4}}));

TEST(DiffusionLmTest, CachedBlocksEqualThePackedForward) {
  auto lm = *DiffusionLm::Create(Small(false, 2), 8);
  const std::vector<std::vector<int32_t>> batch = {RandomIds(20, 4),
                                                   RandomIds(20, 5)};
  torch::NoGradGuard no_grad;
  const torch::Tensor whole =
      lm->Hidden(BlockCausalLayout(batch, 4)).view({2, 20, 24});
  KvCache cache = lm->NewCache(2, 24);
  torch::Tensor ids = torch::zeros({2, 20}, torch::kInt64);
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < 20; ++i) ids[s][i] = batch[s][i];
  }
  // A ragged prefill: 8 rows of sequence 0, 4 of sequence 1.
  const auto rows = [](int n0, int n1) {
    return std::pair{torch::cat({torch::zeros({n0}, torch::kInt64),
                                 torch::ones({n1}, torch::kInt64)}),
                     torch::cat({torch::arange(n0), torch::arange(n1)})};
  };
  auto [sequence, offset] = rows(8, 4);
  (void)lm->CachedForward(
      torch::cat({ids[0].slice(0, 0, 8), ids[1].slice(0, 0, 4)}), sequence,
      offset, torch::tensor({8, 4}), cache);
  // One block of sequence 0 and two of sequence 1 from where each stands.
  std::tie(sequence, offset) = rows(4, 8);
  const torch::Tensor h = lm->CachedForward(
      torch::cat({ids[0].slice(0, 8, 12), ids[1].slice(0, 4, 12)}), sequence,
      offset, torch::tensor({4, 8}), cache);
  EXPECT_LE(
      (h.slice(0, 0, 4) - whole[0].slice(0, 8, 12)).abs().max().item<double>(),
      1e-5);
  EXPECT_LE(
      (h.slice(0, 4, 12) - whole[1].slice(0, 4, 12)).abs().max().item<double>(),
      1e-5);
  EXPECT_EQ(cache.lengths[0].item<int64_t>(), 12);
  EXPECT_EQ(cache.lengths[1].item<int64_t>(), 12);
}

TEST(DiffusionLmTest, SaveAndLoadAreBitExact) {
  auto lm = *DiffusionLm::Create(Small(false, 2), 9);
  const std::string dir = testing::TempDir() + "/saved";
  ASSERT_TRUE(lm->Save(dir).ok());
  auto back = DiffusionLm::Load(dir);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*lm->SerializeWeights(), *(*back)->SerializeWeights());
  EXPECT_EQ(lm->config().ToJson(), (*back)->config().ToJson());
}

TEST(DiffusionLmTest, InitDependsOnTheSeedAlone) {
  torch::manual_seed(1);
  auto a = *DiffusionLm::Create(Small(false, 2), 3);
  torch::manual_seed(2);
  auto b = *DiffusionLm::Create(Small(false, 2), 3);
  auto c = *DiffusionLm::Create(Small(false, 2), 4);
  EXPECT_EQ(*a->SerializeWeights(), *b->SerializeWeights());
  EXPECT_NE(*a->SerializeWeights(), *c->SerializeWeights());
}

TEST(DiffusionLmTest, LoadWeightsChangesNothingWhenATensorIsWrong) {
  auto lm = *DiffusionLm::Create(Small(false, 2), 3);
  auto other = *DiffusionLm::Create(Small(false, 4), 4);
  const std::string before = *lm->SerializeWeights();
  const absl::Status s = lm->LoadWeights(*other->SerializeWeights());
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr("k_proj"));
  EXPECT_EQ(*lm->SerializeWeights(), before);
}

TEST(ModelConfigTest, ListsEveryViolation) {
  const std::string path = testing::TempDir() + "/bad_config.json";
  ASSERT_TRUE(WriteFileAtomic(path, R"({"model_type": "llama",
    "vocab_size": 10, "hidden_size": "x", "rope_scaling": {"type": "yarn"}})")
                  .ok());
  const absl::Status s = ModelConfig::FromJsonFile(path).status();
  for (const char* part : {"llama", "hidden_size has the wrong type", "yarn",
                           "mask_token_id", "eos_token_id"}) {
    EXPECT_THAT(std::string(s.message()), testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace dice
