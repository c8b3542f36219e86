#include "actor/sampler.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace dice {

// Positions are absolute: [0, prompt) prompt, then the response. Blocks are the
// absolute blocks of b positions, prompt included.
struct Sampler::Sequence {
  Request request;
  std::vector<int32_t> tokens;  // up to the end of the active block
  std::vector<char> known;      // per token
  std::vector<int32_t> steps;   // per token; 0 in the prompt, -1 forced
  std::vector<float> logprobs, entropies;
  int64_t active = 0;  // start of the active block
  int64_t cached = 0;  // committed rows; active - cached is 0 or b
  int64_t end = 0;     // absolute end, a multiple of b
  int32_t denoise_steps = 0;
  bool sampled = false;
  WeightsIdentity identity;  // of the oldest sampled token

  int64_t prompt_size() const {
    return static_cast<int64_t>(request.prompt.size());
  }
  void ExtendTo(int64_t length, int32_t mask) {
    const int64_t fixed =
        prompt_size() + static_cast<int64_t>(request.forced.size());
    for (int64_t i = tokens.size(); i < length; ++i) {
      const bool is_known = i < fixed;
      tokens.push_back(i < prompt_size() ? request.prompt[i]
                       : is_known        ? request.forced[i - prompt_size()]
                                         : mask);
      known.push_back(is_known);
      steps.push_back(i < prompt_size() ? 0 : is_known ? -1 : 0);
      logprobs.push_back(0);
      entropies.push_back(0);
    }
  }
  bool BlockDone(int64_t b) const {
    return std::all_of(known.begin() + active, known.begin() + active + b,
                       [](char k) { return k != 0; });
  }
};

Sampler::Sampler(DiffusionLm& lm, const Options& options)
    : lm_(lm), options_(options), block_(lm.config().block_size) {
  slots_.resize(options.max_batch);
}

Sampler::~Sampler() = default;

void Sampler::Add(Request request) { queue_.push_back(std::move(request)); }

void Sampler::Remove(const std::function<bool(uint64_t id)>& unwanted) {
  std::erase_if(queue_,
                [&](const Request& request) { return unwanted(request.id); });
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr || !unwanted(slots_[slot]->request.id))
      continue;
    slots_[slot].reset();
    cache_.lengths[slot] = 0;
  }
}

size_t Sampler::pending() const {
  return queue_.size() +
         std::count_if(slots_.begin(), slots_.end(),
                       [](const auto& s) { return s != nullptr; });
}

void Sampler::Reserve(int64_t length) {
  if (length <= capacity_) return;
  capacity_ = std::max(length, 2 * capacity_);
  KvCache grown = lm_.NewCache(options_.max_batch, capacity_);
  for (size_t i = 0; i < cache_.keys.size(); ++i) {
    const int64_t old = cache_.keys[i].size(2);
    grown.keys[i].narrow(2, 0, old).copy_(cache_.keys[i]);
    grown.values[i].narrow(2, 0, old).copy_(cache_.values[i]);
  }
  if (cache_.lengths.defined()) grown.lengths.copy_(cache_.lengths);
  cache_ = std::move(grown);
}

void Sampler::Admit() {
  const int32_t mask = static_cast<int32_t>(lm_.config().mask_token_id);
  std::vector<int64_t> ids, sequence, offset;
  std::vector<int64_t> commit(slots_.size(), 0);
  for (size_t slot = 0; slot < slots_.size() && !queue_.empty(); ++slot) {
    if (slots_[slot] != nullptr) continue;
    auto s = std::make_unique<Sequence>();
    s->request = std::move(queue_.front());
    queue_.pop_front();
    const int64_t fixed = s->prompt_size() + s->request.forced.size();
    const int64_t wanted =
        s->prompt_size() +
        std::max<int64_t>(s->request.config.max_response_tokens(),
                          s->request.forced.size() + 1);
    s->end = (wanted + block_ - 1) / block_ * block_;
    s->active = s->cached = fixed / block_ * block_;
    s->ExtendTo(s->active + block_, mask);
    Reserve(s->end + block_);
    cache_.lengths[slot] = 0;
    for (int64_t i = 0; i < s->cached; ++i) {
      ids.push_back(s->tokens[i]);
      sequence.push_back(slot);
      offset.push_back(i);
    }
    commit[slot] = s->cached;
    slots_[slot] = std::move(s);
  }
  if (ids.empty()) return;
  (void)lm_.CachedForward(torch::tensor(ids), torch::tensor(sequence),
                          torch::tensor(offset), torch::tensor(commit), cache_);
}

void Sampler::Step(const Done& done) {
  torch::NoGradGuard no_grad;
  if (!queue_.empty()) Admit();
  // One row list for the whole batch: where a block was just finished, its
  // final tokens go along (2b rows), so that a block costs S forwards and not
  // S + 1.
  std::vector<int64_t> ids, sequence, offset, masked_rows;
  std::vector<int64_t> commit(slots_.size(), 0);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const Sequence* s = slots_[slot].get();
    if (s == nullptr) continue;
    commit[slot] = s->active - s->cached;
    for (int64_t i = s->cached; i < s->active + block_; ++i) {
      if (i >= s->active && !s->known[i]) masked_rows.push_back(ids.size());
      ids.push_back(s->tokens[i]);
      sequence.push_back(slot);
      offset.push_back(i - s->cached);
    }
  }
  if (ids.empty()) return;
  const torch::Tensor hidden =
      lm_.CachedForward(torch::tensor(ids), torch::tensor(sequence),
                        torch::tensor(offset), torch::tensor(commit), cache_);
  const torch::Tensor logits =
      (lm_.Head(hidden.index_select(0, torch::tensor(masked_rows)))
           .to(torch::kFloat32) +
       lm_.allowed_ids_mask())
          .contiguous();
  const float* row = logits.data_ptr<float>();
  const int64_t vocab = logits.size(1);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    Sequence* s = slots_[slot].get();
    if (s == nullptr) continue;
    s->cached = s->active;
    ++s->denoise_steps;
    if (!s->sampled) s->identity = identity_;
    s->sampled = true;
    std::vector<Draw> draws;
    for (int64_t i = s->active; i < s->active + block_; ++i) {
      if (s->known[i]) continue;
      Draw d = DrawToken(s->request.config, row, vocab,
                         s->request.key.Uniform(i, s->denoise_steps));
      row += vocab;
      d.index = i;
      draws.push_back(d);
    }
    for (const Draw& d :
         ChooseCommits(s->request.config, block_, std::move(draws))) {
      s->tokens[d.index] = d.token;
      s->known[d.index] = true;
      s->steps[d.index] = s->denoise_steps;
      s->logprobs[d.index] = static_cast<float>(d.logprob);
      s->entropies[d.index] = static_cast<float>(d.entropy);
    }
    if (s->BlockDone(block_)) Finish(slot, done);
  }
}

// The active block is complete: stop, or go on to the next one.
void Sampler::Finish(int64_t slot, const Done& done) {
  Sequence& s = *slots_[slot];
  const auto& eos = lm_.config().eos_token_ids;
  int64_t stop = -1;
  for (int64_t i = s.active; i < s.active + block_ && stop < 0; ++i) {
    if (s.steps[i] > 0 &&
        std::find(eos.begin(), eos.end(), s.tokens[i]) != eos.end()) {
      stop = i + 1;
    }
  }
  const int64_t block_end = s.active + block_;
  if (stop < 0 && block_end < s.end) {
    s.active = block_end;
    s.ExtendTo(s.active + block_,
               static_cast<int32_t>(lm_.config().mask_token_id));
    return;
  }
  Response r;
  for (int64_t i = s.prompt_size(); i < block_end; ++i) {
    r.add_token_ids(s.tokens[i]);
    r.add_steps(s.steps[i]);
    r.add_logprobs(s.logprobs[i]);
    r.add_entropies(s.entropies[i]);
  }
  r.set_num_trained(
      static_cast<int32_t>((stop < 0 ? block_end : stop) - s.prompt_size()));
  r.set_stop_reason(stop < 0 ? "max_tokens" : "eos");
  r.set_denoise_steps(s.denoise_steps);
  *r.mutable_identity() = s.identity;
  const uint64_t id = s.request.id;
  slots_[slot].reset();
  cache_.lengths[slot] = 0;
  done(id, std::move(r));
}

}  // namespace dice
