// The block-diffusion language model behind one interface. Attention rule,
// logit shift and mask id are data (ModelConfig), not subclasses' secrets.
//
// Letters: T packed rows, B sequences, L positions, V vocabulary, C hidden,
// H query heads, K key/value heads, D head dim, b block size.
#ifndef DICE_COMMON_MODEL_DIFFUSION_LM_H_
#define DICE_COMMON_MODEL_DIFFUSION_LM_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dice {

// HF config.json, model_type "sdar" (Qwen3 decoder, block-causal).
struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 1e6;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  int64_t block_size = 4;
  int64_t mask_token_id = -1;
  std::vector<int64_t> eos_token_ids;
  // Ids >= this are padding rows: never sampled, like mask_token_id.
  int64_t num_real_tokens = 0;
  // Random init only: of the layers' matrices, the embedding, the head.
  double initializer_range = 0.02;
  double embedding_init_std = 0.02;
  double head_init_std = 0.02;

  // INVALID_ARGUMENT lists every violation.
  static absl::StatusOr<ModelConfig> FromJsonFile(const std::string& path);
  std::string ToJson() const;
  absl::Status Validate() const;
};

// One batched attention call over rows of a packed batch. Index tensors are
// int64; a padded entry points at any row and is masked out (keys) or ignored
// (queries). Every query, padding too, must see at least one key.
struct AttentionCall {
  torch::Tensor q_index;  // [B, Lq]
  torch::Tensor k_index;  // [B, Lk]
  torch::Tensor mask;     // [B, Lq, Lk] bool, true = visible
};

// Packed rows and who sees whom. Every row is a query exactly once over all
// calls; `out_index[t]` is its place in the concatenation of the calls'
// flattened [B*Lq] outputs.
struct RowLayout {
  torch::Tensor ids;        // [T] int64
  torch::Tensor positions;  // [T] int64, RoPE
  std::vector<AttentionCall> calls;
  torch::Tensor out_index;  // [T] int64
};

// Keys and values of committed tokens, padded per sequence.
struct KvCache {
  // Per layer [B, K, Lmax, D]; row i of sequence s is valid iff i < lengths[s].
  std::vector<torch::Tensor> keys;
  std::vector<torch::Tensor> values;
  torch::Tensor lengths;  // [B] int64
};

// Not thread-safe. Parameters are fp32 or bf16; norms, RoPE and softmax are
// computed in fp32.
class DiffusionLm {
 public:
  // Random init from `seed` (independent of the global generator).
  static absl::StatusOr<std::unique_ptr<DiffusionLm>> Create(
      const ModelConfig& config, uint64_t seed,
      torch::ScalarType dtype = torch::kFloat32);
  // HF folder: config.json + safetensors. Errors name tensor and reason.
  static absl::StatusOr<std::unique_ptr<DiffusionLm>> Load(
      const std::string& dir, torch::ScalarType dtype = torch::kFloat32);
  // Writes config.json and model.safetensors with HF names.
  absl::Status Save(const std::string& dir) const;

  const ModelConfig& config() const { return config_; }
  // HF name -> parameter, in a fixed order. The tied head appears once.
  const std::vector<std::pair<std::string, torch::Tensor>>& parameters() const {
    return parameters_;
  }
  // Safetensors bytes of all parameters; and back (same names and shapes, else
  // INVALID_ARGUMENT naming the tensor; nothing is changed then).
  absl::StatusOr<std::string> SerializeWeights() const;
  absl::Status LoadWeights(const std::string& safetensors);

  // Final-normed hidden states [T, C] of packed rows. Differentiable.
  torch::Tensor Hidden(const RowLayout& rows) const;
  // Logits [N, V] of hidden states [N, C]; disallowed ids are NOT masked.
  torch::Tensor Head(const torch::Tensor& hidden) const;
  // [V, C]; the embedding where they are tied.
  const torch::Tensor& head_weight() const { return head_; }
  // Additive mask [V]: 0 for ids that may be sampled, -inf for the mask id and
  // padding ids. Sampler and learner share it.
  const torch::Tensor& allowed_ids_mask() const { return allowed_mask_; }

  KvCache NewCache(int64_t batch, int64_t max_length) const;
  // Cached forward of new rows, ragged: row t belongs to sequence sequence[t]
  // at position lengths[s] + offset[t]; the rows of a sequence are contiguous
  // and its offsets count from 0. Block-causal among the new rows, all cached
  // rows visible. ids, sequence, offset [T] int64. Returns hidden [T, C]. The
  // first commit[s] (int64 [B], multiples of b or 0) new rows of s are final:
  // their keys and values stay and lengths grow. No gradient.
  torch::Tensor CachedForward(const torch::Tensor& ids,
                              const torch::Tensor& sequence,
                              const torch::Tensor& offset,
                              const torch::Tensor& commit, KvCache& cache);

 private:
  DiffusionLm() = default;
  struct Layer {
    torch::Tensor input_norm, q, k, v, q_norm, k_norm, o;
    torch::Tensor post_norm, gate, up, down;
  };
  void BuildParameters(uint64_t seed, torch::ScalarType dtype);
  // Rows [.., D/2] of cos and sin for `positions`, any shape.
  std::pair<torch::Tensor, torch::Tensor> Rope(
      const torch::Tensor& positions) const;
  // Projected, normed and rotated [T, heads, D] of normed rows x [T, C].
  torch::Tensor Query(const Layer& layer, const torch::Tensor& x,
                      const torch::Tensor& cos, const torch::Tensor& sin) const;
  torch::Tensor Key(const Layer& layer, const torch::Tensor& x,
                    const torch::Tensor& cos, const torch::Tensor& sin) const;
  torch::Tensor Mlp(const Layer& layer, const torch::Tensor& x) const;

  ModelConfig config_;
  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  std::vector<Layer> layers_;
  torch::Tensor embedding_, final_norm_, head_;
  torch::Tensor allowed_mask_;
};

// A plain block-causal layout of whole sequences (padded dense mask): position
// q sees k iff floor(k/b) <= floor(q/b).
RowLayout BlockCausalLayout(const std::vector<std::vector<int32_t>>& sequences,
                            int64_t block_size);

}  // namespace dice

#endif  // DICE_COMMON_MODEL_DIFFUSION_LM_H_
