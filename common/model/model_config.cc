#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/model/diffusion_lm.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using nlohmann::json;

// Reads `key` into `out` when present; a wrong type is a violation.
template <typename T>
void Read(const json& j, const char* key, T& out,
          std::vector<std::string>& bad) {
  const auto it = j.find(key);
  if (it == j.end() || it->is_null()) return;
  try {
    out = it->get<T>();
  } catch (const json::exception&) {
    bad.push_back(absl::StrCat(key, " has the wrong type"));
  }
}

// Known model types, each a Qwen3 decoder with the block-causal rule.
bool KnownType(const std::string& type) {
  return type == "sdar" || type == "qwen3";
}

void ReadEos(const json& j, ModelConfig& c, std::vector<std::string>& bad) {
  const auto it = j.find("eos_token_id");
  if (it == j.end() || it->is_null()) return;
  if (it->is_number_integer()) {
    c.eos_token_ids = {it->get<int64_t>()};
  } else {
    Read(j, "eos_token_id", c.eos_token_ids, bad);
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::FromJsonFile(const std::string& path) {
  DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
  }
  ModelConfig c;
  std::vector<std::string> bad;
  std::string type;
  Read(j, "model_type", type, bad);
  if (!KnownType(type)) {
    bad.push_back(absl::StrCat("model_type '", type,
                               "' is not supported (sdar, qwen3)"));
  }
  Read(j, "vocab_size", c.vocab_size, bad);
  Read(j, "hidden_size", c.hidden_size, bad);
  Read(j, "intermediate_size", c.intermediate_size, bad);
  Read(j, "num_hidden_layers", c.num_layers, bad);
  Read(j, "num_attention_heads", c.num_heads, bad);
  c.num_kv_heads = c.num_heads;
  Read(j, "num_key_value_heads", c.num_kv_heads, bad);
  c.head_dim = c.num_heads > 0 ? c.hidden_size / c.num_heads : 0;
  Read(j, "head_dim", c.head_dim, bad);
  Read(j, "rope_theta", c.rope_theta, bad);
  Read(j, "rms_norm_eps", c.rms_norm_eps, bad);
  Read(j, "tie_word_embeddings", c.tie_word_embeddings, bad);
  Read(j, "block_size", c.block_size, bad);
  Read(j, "mask_token_id", c.mask_token_id, bad);
  Read(j, "initializer_range", c.initializer_range, bad);
  Read(j, "embedding_init_std", c.embedding_init_std, bad);
  Read(j, "head_init_std", c.head_init_std, bad);
  c.num_real_tokens = c.vocab_size;
  Read(j, "num_real_tokens", c.num_real_tokens, bad);
  ReadEos(j, c, bad);
  if (const auto it = j.find("rope_scaling"); it != j.end() && !it->is_null()) {
    bad.push_back(absl::StrCat("rope_scaling ", it->dump(),
                               " is not supported"));
  }
  const absl::Status valid = c.Validate();
  if (!valid.ok()) bad.push_back(std::string(valid.message()));
  if (!bad.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", absl::StrJoin(bad, "; ")));
  }
  return c;
}

std::string ModelConfig::ToJson() const {
  const json j = {{"model_type", "sdar"},
                  {"architectures", {"SDARForCausalLM"}},
                  {"vocab_size", vocab_size},
                  {"hidden_size", hidden_size},
                  {"intermediate_size", intermediate_size},
                  {"num_hidden_layers", num_layers},
                  {"num_attention_heads", num_heads},
                  {"num_key_value_heads", num_kv_heads},
                  {"head_dim", head_dim},
                  {"rope_theta", rope_theta},
                  {"rms_norm_eps", rms_norm_eps},
                  {"tie_word_embeddings", tie_word_embeddings},
                  {"block_size", block_size},
                  {"mask_token_id", mask_token_id},
                  {"num_real_tokens", num_real_tokens},
                  {"initializer_range", initializer_range},
                  {"embedding_init_std", embedding_init_std},
                  {"head_init_std", head_init_std},
                  {"eos_token_id", eos_token_ids},
                  {"attention_bias", false},
                  {"hidden_act", "silu"}};
  return j.dump(2);
}

absl::Status ModelConfig::Validate() const {
  std::vector<std::string> bad;
  const auto need = [&](bool ok, absl::string_view text) {
    if (!ok) bad.emplace_back(text);
  };
  need(vocab_size > 0, "vocab_size must be positive");
  need(hidden_size > 0, "hidden_size must be positive");
  need(intermediate_size > 0, "intermediate_size must be positive");
  need(num_layers > 0, "num_hidden_layers must be positive");
  need(num_kv_heads > 0 && num_heads % num_kv_heads == 0,
       "num_attention_heads must be a multiple of num_key_value_heads");
  need(head_dim > 0 && head_dim % 2 == 0, "head_dim must be positive and even");
  need(block_size > 0, "block_size must be positive");
  need(mask_token_id >= 0 && mask_token_id < vocab_size,
       "mask_token_id must lie in the vocabulary");
  need(num_real_tokens > 0 && num_real_tokens <= vocab_size,
       "num_real_tokens must lie in [1, vocab_size]");
  need(!eos_token_ids.empty(), "eos_token_id is missing");
  for (int64_t e : eos_token_ids) {
    need(e >= 0 && e < num_real_tokens && e != mask_token_id,
         absl::StrCat("eos_token_id ", e, " cannot be sampled"));
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(bad, "; "));
}

}  // namespace dice
