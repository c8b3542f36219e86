// A policy small enough to sample hundreds of responses in a moment. The
// LibTorch side of the actor's process test, which is a gRPC unit.
#ifndef DICE_TESTS_ACTOR_TINY_POLICY_H_
#define DICE_TESTS_ACTOR_TINY_POLICY_H_

#include <cstdint>
#include <string>

namespace dice {

// Writes DIR/config.json and DIR/tokenizer.json (one token for each byte, ids
// of the bytes, then eos 256 and mask 257).
void WriteTinyModel(const std::string& dir);
// Random weights for it as safetensors bytes.
std::string TinyWeights(uint64_t seed);

}  // namespace dice

#endif  // DICE_TESTS_ACTOR_TINY_POLICY_H_
