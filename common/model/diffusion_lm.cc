#include "common/model/diffusion_lm.h"

#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/model/safetensors.h"

namespace dice {
namespace {

using torch::Tensor;

// fp32, or the type itself where it is wider.
torch::ScalarType AtLeastFp32(torch::ScalarType type) {
  return at::promote_types(type, torch::kFloat32);
}

// Qwen3's RMSNorm: statistics in fp32, then the weight.
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double eps) {
  if (x.scalar_type() == AtLeastFp32(x.scalar_type())) {
    return at::rms_norm(x, {x.size(-1)}, weight, eps);
  }
  const Tensor f = x.to(torch::kFloat32);
  const Tensor scale = torch::rsqrt(f.square().mean(-1, true) + eps);
  return (f * scale).to(x.scalar_type()) * weight;
}

// Half-rotation RoPE. x [..., heads, D]; cos, sin [..., D/2] in fp32.
Tensor ApplyRope(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.to(AtLeastFp32(x.scalar_type())).chunk(2, -1);
  const Tensor c = cos.unsqueeze(-2), s = sin.unsqueeze(-2);
  return torch::cat({halves[0] * c - halves[1] * s,
                     halves[1] * c + halves[0] * s},
                    -1)
      .to(x.scalar_type());
}

// Additive mask in `type` from a boolean one (true = visible).
Tensor Additive(const Tensor& visible, torch::ScalarType type) {
  return torch::zeros(visible.sizes(), torch::TensorOptions().dtype(type))
      .masked_fill_(visible.logical_not(),
                    -std::numeric_limits<float>::infinity());
}

// Grouped-query attention with the G query heads of a K/V head folded into
// rows. q [B, Lq, H, D], k and v [B, K, Lk, D], mask [B, 1, G*Lq, Lk] additive.
// Returns [B, Lq, H, D].
Tensor Attend(const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& mask) {
  const int64_t b = q.size(0), lq = q.size(1), h = q.size(2), d = q.size(3);
  const int64_t kv = k.size(1), g = h / kv;
  const Tensor rows = q.view({b, lq, kv, g, d})
                          .permute({0, 2, 3, 1, 4})
                          .reshape({b, kv, g * lq, d});
  const Tensor out = at::scaled_dot_product_attention(rows, k, v, mask);
  return out.reshape({b, kv, g, lq, d}).permute({0, 3, 1, 2, 4}).reshape(
      {b, lq, h, d});
}

Tensor RepeatForGroup(const Tensor& mask, int64_t g) {
  return mask.unsqueeze(1).repeat({1, 1, g, 1});
}

}  // namespace

void DiffusionLm::BuildParameters(uint64_t seed, torch::ScalarType dtype) {
  const ModelConfig& c = config_;
  // A generator of our own: the global one belongs to the caller.
  auto generator = at::detail::createCPUGenerator(seed);
  const auto add = [&](const std::string& name, torch::IntArrayRef shape,
                       double std) {
    Tensor t = torch::empty(shape, torch::kFloat32);
    if (std == 0) {
      t.fill_(1);
    } else {
      t.normal_(0, std, generator);
    }
    t = t.to(dtype).set_requires_grad(true);
    parameters_.emplace_back(name, t);
    return t;
  };
  const double std = c.initializer_range;
  embedding_ = add("model.embed_tokens.weight", {c.vocab_size, c.hidden_size},
                   c.embedding_init_std);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string p = absl::StrCat("model.layers.", i, ".");
    const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
    const int64_t n = c.hidden_size, m = c.intermediate_size;
    Layer l;
    l.input_norm = add(p + "input_layernorm.weight", {n}, 0);
    l.q = add(p + "self_attn.q_proj.weight", {q, n}, std);
    l.k = add(p + "self_attn.k_proj.weight", {kv, n}, std);
    l.v = add(p + "self_attn.v_proj.weight", {kv, n}, std);
    l.q_norm = add(p + "self_attn.q_norm.weight", {c.head_dim}, 0);
    l.k_norm = add(p + "self_attn.k_norm.weight", {c.head_dim}, 0);
    l.o = add(p + "self_attn.o_proj.weight", {n, q}, std);
    l.post_norm = add(p + "post_attention_layernorm.weight", {n}, 0);
    l.gate = add(p + "mlp.gate_proj.weight", {m, n}, std);
    l.up = add(p + "mlp.up_proj.weight", {m, n}, std);
    l.down = add(p + "mlp.down_proj.weight", {n, m}, std);
    layers_.push_back(l);
  }
  final_norm_ = add("model.norm.weight", {c.hidden_size}, 0);
  head_ = c.tie_word_embeddings
              ? embedding_
              : add("lm_head.weight", {c.vocab_size, c.hidden_size},
                    c.head_init_std);
  allowed_mask_ = torch::zeros({c.vocab_size});
  allowed_mask_.slice(0, c.num_real_tokens)
      .fill_(-std::numeric_limits<float>::infinity());
  allowed_mask_[c.mask_token_id] = -std::numeric_limits<float>::infinity();
}

absl::StatusOr<std::unique_ptr<DiffusionLm>> DiffusionLm::Create(
    const ModelConfig& config, uint64_t seed, torch::ScalarType dtype) {
  DICE_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<DiffusionLm> lm(new DiffusionLm);
  lm->config_ = config;
  lm->BuildParameters(seed, dtype);
  return lm;
}

absl::StatusOr<std::unique_ptr<DiffusionLm>> DiffusionLm::Load(
    const std::string& dir, torch::ScalarType dtype) {
  DICE_ASSIGN_OR_RETURN(
      ModelConfig config,
      ModelConfig::FromJsonFile(JoinPath(dir, "config.json")));
  const std::string path = JoinPath(dir, "model.safetensors");
  DICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  DICE_ASSIGN_OR_RETURN(auto lm, Create(config, /*seed=*/0, dtype));
  DICE_RETURN_IF_ERROR(lm->LoadWeights(bytes)) << path;
  return lm;
}

absl::Status DiffusionLm::Save(const std::string& dir) const {
  DICE_RETURN_IF_ERROR(MakeDirs(dir));
  DICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeWeights());
  DICE_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(dir, "model.safetensors"), bytes));
  return WriteFileAtomic(JoinPath(dir, "config.json"), config_.ToJson());
}

absl::StatusOr<std::string> DiffusionLm::SerializeWeights() const {
  return SerializeSafetensors(parameters_);
}

absl::Status DiffusionLm::LoadWeights(const std::string& safetensors) {
  DICE_ASSIGN_OR_RETURN(const NamedTensors loaded,
                        ParseSafetensors(safetensors));
  std::map<std::string, Tensor> by_name(loaded.begin(), loaded.end());
  for (const auto& [name, parameter] : parameters_) {
    const auto it = by_name.find(name);
    if (it == by_name.end()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", name,
                                                     " is missing"));
    }
    if (it->second.sizes() != parameter.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", name, " has shape [",
          absl::StrJoin(it->second.sizes(), ", "), "], the config wants [",
          absl::StrJoin(parameter.sizes(), ", "), "]"));
    }
  }
  torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_) parameter.copy_(by_name[name]);
  return absl::OkStatus();
}

std::pair<Tensor, Tensor> DiffusionLm::Rope(const Tensor& positions) const {
  const Tensor inverse = torch::pow(
      config_.rope_theta,
      -torch::arange(0, config_.head_dim, 2, torch::kFloat32) /
          static_cast<double>(config_.head_dim));
  const Tensor angles =
      positions.to(torch::kFloat32).unsqueeze(-1) * inverse;
  return {angles.cos(), angles.sin()};
}

Tensor DiffusionLm::Mlp(const Layer& l, const Tensor& x) const {
  const Tensor n = RmsNorm(x, l.post_norm, config_.rms_norm_eps);
  return torch::linear(
      torch::silu(torch::linear(n, l.gate)) * torch::linear(n, l.up), l.down);
}

Tensor DiffusionLm::Query(const Layer& l, const Tensor& x, const Tensor& cos,
                          const Tensor& sin) const {
  const Tensor q = torch::linear(x, l.q).view(
      {x.size(0), config_.num_heads, config_.head_dim});
  return ApplyRope(RmsNorm(q, l.q_norm, config_.rms_norm_eps), cos, sin);
}

Tensor DiffusionLm::Key(const Layer& l, const Tensor& x, const Tensor& cos,
                        const Tensor& sin) const {
  const Tensor k = torch::linear(x, l.k).view(
      {x.size(0), config_.num_kv_heads, config_.head_dim});
  return ApplyRope(RmsNorm(k, l.k_norm, config_.rms_norm_eps), cos, sin);
}

Tensor DiffusionLm::Hidden(const RowLayout& rows) const {
  const ModelConfig& c = config_;
  const int64_t t = rows.ids.size(0), g = c.num_heads / c.num_kv_heads;
  const auto [cos, sin] = Rope(rows.positions);
  Tensor x = torch::embedding(embedding_, rows.ids);
  std::vector<Tensor> masks;
  for (const AttentionCall& call : rows.calls) {
    masks.push_back(RepeatForGroup(Additive(call.mask, x.scalar_type()), g));
  }
  for (const Layer& l : layers_) {
    const Tensor n = RmsNorm(x, l.input_norm, c.rms_norm_eps);
    const Tensor q = Query(l, n, cos, sin);
    const Tensor k = Key(l, n, cos, sin);
    const Tensor v =
        torch::linear(n, l.v).view({t, c.num_kv_heads, c.head_dim});
    std::vector<Tensor> outs;
    for (size_t i = 0; i < rows.calls.size(); ++i) {
      const AttentionCall& call = rows.calls[i];
      const int64_t b = call.q_index.size(0), lk = call.k_index.size(1);
      const auto gather = [&](const Tensor& from, const Tensor& index) {
        return from.index_select(0, index.flatten());
      };
      const Tensor qs = gather(q, call.q_index)
                            .view({b, call.q_index.size(1), c.num_heads,
                                   c.head_dim});
      const auto heads_first = [&](const Tensor& from) {
        return gather(from, call.k_index)
            .view({b, lk, c.num_kv_heads, c.head_dim})
            .transpose(1, 2);
      };
      outs.push_back(Attend(qs, heads_first(k), heads_first(v), masks[i])
                         .reshape({-1, c.num_heads * c.head_dim}));
    }
    const Tensor merged = (outs.size() == 1 ? outs[0] : torch::cat(outs))
                              .index_select(0, rows.out_index);
    x = x + torch::linear(merged, l.o);
    x = x + Mlp(l, x);
  }
  return RmsNorm(x, final_norm_, c.rms_norm_eps);
}

Tensor DiffusionLm::Head(const Tensor& hidden) const {
  return torch::linear(hidden, head_);
}

KvCache DiffusionLm::NewCache(int64_t batch, int64_t max_length) const {
  KvCache cache;
  const auto options = embedding_.options().requires_grad(false);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::vector<int64_t> shape = {batch, config_.num_kv_heads, max_length,
                                        config_.head_dim};
    cache.keys.push_back(torch::zeros(shape, options));
    cache.values.push_back(torch::zeros(shape, options));
  }
  cache.lengths = torch::zeros({batch}, torch::kInt64);
  return cache;
}

Tensor DiffusionLm::CachedForward(const Tensor& ids, const Tensor& sequence,
                                  const Tensor& offset, const Tensor& commit,
                                  KvCache& cache) {
  torch::NoGradGuard no_grad;
  const ModelConfig& c = config_;
  const int64_t t = ids.size(0), b = cache.lengths.size(0);
  const int64_t r = offset.max().item<int64_t>() + 1;
  const int64_t g = c.num_heads / c.num_kv_heads;
  const Tensor rows = torch::zeros({b}, torch::kInt64)
                          .scatter_reduce_(0, sequence, offset + 1, "amax");
  const Tensor ends = cache.lengths + rows;
  const int64_t longest = ends.max().item<int64_t>();
  TORCH_CHECK(longest <= cache.keys[0].size(2), "KV cache is full");
  const Tensor positions = cache.lengths.index_select(0, sequence) + offset;
  // Queries are padded to [B, r]. Key j is visible to the query at position p
  // iff j has been written and its block is not later than p's.
  const Tensor padded_positions =
      cache.lengths.unsqueeze(1) + torch::arange(r, torch::kInt64);
  const Tensor last =
      torch::minimum(
          (padded_positions.div(c.block_size, "floor") + 1) * c.block_size,
          ends.unsqueeze(1))
          .clamp_min(1);
  const Tensor j = torch::arange(longest, torch::kInt64).view({1, 1, longest});
  const Tensor mask = RepeatForGroup(
      Additive(j < last.unsqueeze(-1), embedding_.scalar_type()), g);
  const Tensor place = sequence * r + offset;  // of a row among padded queries
  const auto [cos, sin] = Rope(positions);
  // The new rows are written at once; they become final only when `lengths`
  // moves over them.
  const torch::List<std::optional<Tensor>> where(
      {std::optional<Tensor>(sequence), std::optional<Tensor>(positions)});

  Tensor x = torch::embedding(embedding_, ids);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& l = layers_[i];
    const Tensor n = RmsNorm(x, l.input_norm, c.rms_norm_eps);
    const Tensor q = Query(l, n, cos, sin);
    const Tensor k = Key(l, n, cos, sin);
    const Tensor v =
        torch::linear(n, l.v).view({t, c.num_kv_heads, c.head_dim});
    cache.keys[i].transpose(1, 2).index_put_(where, k);
    cache.values[i].transpose(1, 2).index_put_(where, v);
    Tensor padded = torch::zeros({b * r, c.num_heads, c.head_dim}, q.options());
    padded.index_copy_(0, place, q);
    const Tensor out =
        Attend(padded.view({b, r, c.num_heads, c.head_dim}),
               cache.keys[i].narrow(2, 0, longest),
               cache.values[i].narrow(2, 0, longest), mask)
            .reshape({b * r, c.num_heads * c.head_dim})
            .index_select(0, place);
    x = x + torch::linear(out, l.o);
    x = x + Mlp(l, x);
  }
  cache.lengths.add_(commit);
  return RmsNorm(x, final_norm_, c.rms_norm_eps);
}

RowLayout BlockCausalLayout(const std::vector<std::vector<int32_t>>& sequences,
                            int64_t block_size) {
  const int64_t b = static_cast<int64_t>(sequences.size());
  int64_t longest = 1, total = 0;
  for (const auto& s : sequences) {
    longest = std::max<int64_t>(longest, s.size());
    total += s.size();
  }
  RowLayout out;
  std::vector<int64_t> ids, positions, places;
  std::vector<int64_t> index(b * longest, 0);
  Tensor mask = torch::zeros({b, longest, longest}, torch::kBool);
  auto visible = mask.accessor<bool, 3>();
  for (int64_t s = 0; s < b; ++s) {
    const int64_t n = sequences[s].size();
    for (int64_t q = 0; q < longest; ++q) {
      visible[s][q][0] = true;  // padding must see something
      if (q >= n) continue;
      index[s * longest + q] = static_cast<int64_t>(ids.size());
      places.push_back(s * longest + q);
      ids.push_back(sequences[s][q]);
      positions.push_back(q);
      const int64_t end = std::min(n, (q / block_size + 1) * block_size);
      for (int64_t k = 0; k < end; ++k) visible[s][q][k] = true;
    }
  }
  out.ids = torch::tensor(ids, torch::kInt64);
  out.positions = torch::tensor(positions, torch::kInt64);
  out.out_index = torch::tensor(places, torch::kInt64);
  const Tensor rows = torch::tensor(index, torch::kInt64).view({b, longest});
  out.calls.push_back({rows, rows, mask});
  return out;
}

}  // namespace dice
