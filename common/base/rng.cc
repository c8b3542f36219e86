#include "common/base/rng.h"

#include <cmath>
#include <numbers>

namespace dice {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

StreamKey StreamKey::Derive(std::initializer_list<uint64_t> path) const {
  uint64_t k = key_;
  for (uint64_t p : path) k = Mix(Mix(k + kGolden) ^ Mix(p + 2 * kGolden));
  return StreamKey(k);
}

double StreamKey::Uniform(uint64_t a, uint64_t b) const {
  const uint64_t bits = Mix(Derive({a, b}).value() + kGolden);
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
}

Rng::Rng(StreamKey key) {
  uint64_t x = key.value();
  for (uint64_t& s : s_) s = Mix(x += kGolden);
}

// xoshiro256++ 1.0 (Blackman, Vigna, 2019).
uint64_t Rng::operator()() {
  const uint64_t out = Rotl(s_[0] + s_[3], 23) + s_[0];
  const uint64_t t = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= t;
  s_[3] = Rotl(s_[3], 45);
  return out;
}

uint64_t Rng::Below(uint64_t n) {
  const uint64_t limit = max() - max() % n;
  uint64_t x;
  do {
    x = (*this)();
  } while (x >= limit);
  return x % n;
}

double Rng::Uniform() {
  return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
}

double Rng::Normal() {
  const double u = 1.0 - Uniform();
  return std::sqrt(-2.0 * std::log(u)) *
         std::cos(2.0 * std::numbers::pi * Uniform());
}

}  // namespace dice
