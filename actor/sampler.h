// Continuous block-diffusion sampling: any number of sequences are queued, up
// to max_batch are denoised together, and each is delivered the moment it is
// finished. What a sequence becomes is a function of (weights, prompt, forced
// tokens, stream key, config), independent of the other sequences up to the
// kernels' numerics.
//
// Not thread-safe: one thread owns it.
#ifndef DICE_ACTOR_SAMPLER_H_
#define DICE_ACTOR_SAMPLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/base/rng.h"
#include "common/model/diffusion_lm.h"
#include "proto/rollout.pb.h"

namespace dice {

// What one denoise step drew at one masked position.
struct Draw {
  int64_t index = 0;  // position in the block
  int32_t token = 0;
  double confidence = 0;  // probability of the token under what was drawn from
  double entropy = 0;     // nats, of the softmax over allowed ids
  double logprob = 0;     // of the token, T = 1, over allowed ids
};

// The draws that this step commits, by config.strategy; at least one, so that
// a block always ends. `draws` are in position order.
std::vector<Draw> ChooseCommits(const SamplingConfig& config,
                                int64_t block_size, std::vector<Draw> draws);

// Draws from logits [V] (fp32, CPU; disallowed ids at -inf) with `uniform` in
// (0, 1): temperature, then top-k, then top-p, then inverse CDF; or argmax.
Draw DrawToken(const SamplingConfig& config, const float* logits, int64_t vocab,
               double uniform);

// INVALID_ARGUMENT lists every violation. With `for_rl`, anything that would
// break the importance weight (T != 1, top-k, top-p, greedy) is one.
absl::Status ValidateSampling(const SamplingConfig& config, bool for_rl);

class Sampler {
 public:
  struct Options {
    int64_t max_batch = 256;
  };
  struct Request {
    uint64_t id = 0;
    std::vector<int32_t> prompt;
    std::vector<int32_t> forced;  // start of the response, never re-drawn
    StreamKey key{0};
    SamplingConfig config;
  };
  using Done = std::function<void(uint64_t id, Response response)>;

  // `lm` is borrowed and outlives this; its weights may change between steps.
  Sampler(DiffusionLm& lm, const Options& options);
  ~Sampler();

  void Add(Request request);
  // Drops the sequences that `unwanted` says; they are not delivered.
  void Remove(const std::function<bool(uint64_t id)>& unwanted);
  // Sequences queued or in the batch.
  size_t pending() const;
  // Recorded with every response that starts from now on.
  void SetIdentity(const WeightsIdentity& identity) { identity_ = identity; }
  // Admits, runs one forward for all sequences of the batch, commits, and calls
  // `done` for each that finished. No effect when nothing is pending.
  void Step(const Done& done);

 private:
  struct Sequence;
  void Admit();
  void Reserve(int64_t length);
  void Finish(int64_t slot, const Done& done);

  DiffusionLm& lm_;
  const Options options_;
  const int64_t block_;
  WeightsIdentity identity_;
  std::deque<Request> queue_;
  std::vector<std::unique_ptr<Sequence>> slots_;
  KvCache cache_;
  int64_t capacity_ = 0;
};

}  // namespace dice

#endif  // DICE_ACTOR_SAMPLER_H_
