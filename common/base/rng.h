// Splittable random streams keyed by work, never by worker, so that any rollout
// can be replayed alone.
#ifndef DICE_COMMON_BASE_RNG_H_
#define DICE_COMMON_BASE_RNG_H_

#include <cstdint>
#include <initializer_list>

namespace dice {

// A key of a random stream. Derive() gives the key of a sub-stream; equal paths
// give equal keys on every machine.
class StreamKey {
 public:
  explicit StreamKey(uint64_t seed) : key_(seed) {}
  // E.g. StreamKey(run_seed).Derive({stage, task_ordinal, sample}).
  StreamKey Derive(std::initializer_list<uint64_t> path) const;
  uint64_t value() const { return key_; }
  // Counter generator: the uniform in the open interval (0, 1) at coordinates
  // (a, b), e.g. (absolute position, denoise step). Stateless.
  double Uniform(uint64_t a, uint64_t b) const;

 private:
  uint64_t key_;
};

// A sequential generator (xoshiro256++) seeded by a key. Satisfies
// UniformRandomBitGenerator. Not thread-safe.
class Rng {
 public:
  using result_type = uint64_t;
  explicit Rng(StreamKey key);
  explicit Rng(uint64_t seed) : Rng(StreamKey(seed)) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()();
  // In [0, n), unbiased; n > 0.
  uint64_t Below(uint64_t n);
  double Uniform();  // [0, 1), 53 bits
  double Normal();   // N(0, 1), Box-Muller

 private:
  uint64_t s_[4];
};

}  // namespace dice

#endif  // DICE_COMMON_BASE_RNG_H_
