// A model and random training groups small enough for finite differences.
#ifndef DICE_TESTS_LEARNER_TINY_MODEL_H_
#define DICE_TESTS_LEARNER_TINY_MODEL_H_

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "common/model/diffusion_lm.h"
#include "learner/rows.h"

namespace dice {

inline ModelConfig TinyConfig() {
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
  c.num_real_tokens = 13;
  c.eos_token_ids = {0};
  c.embedding_init_std = 1;
  c.head_init_std = 0.5;
  return c;
}

// A response after `prompt` tokens with a random step map, as a sampler could
// have made it: whole last block, forced prefix, steps distinct per block.
inline TrainSequence RandomSequence(int64_t prompt, Rng& rng) {
  TrainSequence s;
  const int64_t length = 1 + static_cast<int64_t>(rng.Below(14));
  const int64_t total = (prompt + length + 3) / 4 * 4;
  const int64_t forced = static_cast<int64_t>(rng.Below(4));
  int32_t step = 0;
  for (int64_t i = prompt; i < total; ++i) {
    if (i % 4 == 0) step += 4;
    s.tokens.push_back(static_cast<int32_t>(rng.Below(12)));
    s.steps.push_back(i - prompt < forced
                          ? -1
                          : step + 1 + static_cast<int32_t>(rng.Below(4)));
  }
  s.num_trained = std::min<int64_t>(s.tokens.size(),
                                    forced + 1 + rng.Below(total - prompt));
  return s;
}

inline std::vector<TrainGroup> RandomGroups(uint64_t seed, int responses) {
  Rng rng(seed);
  std::vector<TrainGroup> out;
  for (int g = 0; g < 3; ++g) {
    TrainGroup group;
    const int64_t prompt = static_cast<int64_t>(rng.Below(11));
    for (int64_t i = 0; i < prompt; ++i) {
      group.prompt.push_back(static_cast<int32_t>(rng.Below(12)));
    }
    for (int r = 0; r < responses; ++r) {
      group.responses.push_back(RandomSequence(prompt, rng));
    }
    out.push_back(group);
  }
  return out;
}

}  // namespace dice

#endif  // DICE_TESTS_LEARNER_TINY_MODEL_H_
