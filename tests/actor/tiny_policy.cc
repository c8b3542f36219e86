#include "tests/actor/tiny_policy.h"

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/model/diffusion_lm.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

ModelConfig Config() {
  ModelConfig c;
  c.vocab_size = 258;
  c.hidden_size = 16;
  c.intermediate_size = 32;
  c.num_layers = 1;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.head_dim = 8;
  c.rope_theta = 1e4;
  c.mask_token_id = 257;
  c.num_real_tokens = 257;
  c.eos_token_ids = {256};
  c.embedding_init_std = 1;
  return c;
}

// GPT-2's printable stand-in for a byte.
std::string StandIn(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

void WriteTinyModel(const std::string& dir) {
  DICE_CHECK_OK(MakeDirs(dir));
  DICE_CHECK_OK(WriteFileAtomic(dir + "/config.json", Config().ToJson()));
  nlohmann::json vocab;
  for (int b = 0; b < 256; ++b) vocab[StandIn(b)] = b;
  const auto added = [](int id, const char* text) {
    return nlohmann::json{{"id", id},           {"content", text},
                          {"special", true},    {"single_word", false},
                          {"lstrip", false},    {"rstrip", false},
                          {"normalized", false}};
  };
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", {added(256, "<eos>"), added(257, "<mask>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", nlohmann::json::array()}}}};
  DICE_CHECK_OK(WriteFileAtomic(dir + "/tokenizer.json", tokenizer.dump()));
}

std::string TinyWeights(uint64_t seed) {
  auto lm = DiffusionLm::Create(Config(), seed);
  DICE_CHECK(lm.ok()) << lm.status();
  return *(*lm)->SerializeWeights();
}

}  // namespace dice
