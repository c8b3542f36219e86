// Barriers, warp-wide functions and atomics. The first two switch fibers; the
// last are plain, since one thread runs at a time and only switches there.
#ifndef DICE_EMULATE_COLLECTIVES_H_
#define DICE_EMULATE_COLLECTIVES_H_

#include "fiber.h"
#include "math.h"

DICE_FN_ void __syncthreads() { dice_block_barrier(0, 0); }
DICE_FN_ int __syncthreads_count(int p) { return dice_block_barrier(0, p != 0); }
DICE_FN_ int __syncthreads_and(int p) { return dice_block_barrier(1, p != 0); }
DICE_FN_ int __syncthreads_or(int p) { return dice_block_barrier(2, p != 0); }
DICE_FN_ void __syncwarp(unsigned mask = 0xffffffffu) {
  dice_ballot(mask, false);
}
DICE_FN_ unsigned __activemask() { return dice_active_mask(); }
DICE_FN_ unsigned __ballot_sync(unsigned mask, int p) {
  return dice_ballot(mask, p != 0);
}
DICE_FN_ int __any_sync(unsigned mask, int p) {
  return dice_ballot(mask, p != 0) != 0;
}
DICE_FN_ int __all_sync(unsigned mask, int p) {
  return dice_ballot(mask, p == 0) == 0;
}

namespace dice_emulate {
template <typename T>
inline T Exchange(unsigned mask, T value, int from) {
  constexpr int kWords = (sizeof(T) + 7) / 8;
  uint64_t words[kWords] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (int i = 0; i < kWords; ++i)
    words[i] = dice_exchange(mask, words[i], from);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
inline int Segment(int width) { return dice_lane() & ~(width - 1); }
}  // namespace dice_emulate

template <typename T>
inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
  return dice_emulate::Exchange(
      mask, v, dice_emulate::Segment(width) + (lane & (width - 1)));
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  const int me = dice_lane(), from = me - int(delta);
  return dice_emulate::Exchange(
      mask, v, from < dice_emulate::Segment(width) ? me : from);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  const int me = dice_lane(), from = me + int(delta);
  return dice_emulate::Exchange(
      mask, v, from >= dice_emulate::Segment(width) + width ? me : from);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32) {
  const int me = dice_lane(), from = me ^ lanes;
  return dice_emulate::Exchange(
      mask, v, from >= dice_emulate::Segment(width) + width ? me : from);
}
template <typename T>
inline unsigned __match_any_sync(unsigned mask, T v) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      same |= unsigned(dice_emulate::Exchange(mask, v, lane) == v) << lane;
  return same;
}
#define DICE_REDUCE_(name, T, expression)                               \
  inline T name(unsigned mask, T a) {                                   \
    const T mine = a;                                                   \
    bool first = true;                                                  \
    for (int lane = 0; lane < 32; ++lane) {                             \
      if (!(mask >> lane & 1)) continue;                                \
      const T b = dice_emulate::Exchange(mask, mine, lane);             \
      a = first ? b : (expression);                                     \
      first = false;                                                    \
    }                                                                   \
    return a;                                                           \
  }
DICE_REDUCE_(__reduce_add_sync, int, a + b)
DICE_REDUCE_(__reduce_add_sync, unsigned, a + b)
DICE_REDUCE_(__reduce_min_sync, int, a < b ? a : b)
DICE_REDUCE_(__reduce_min_sync, unsigned, a < b ? a : b)
DICE_REDUCE_(__reduce_max_sync, int, a > b ? a : b)
DICE_REDUCE_(__reduce_max_sync, unsigned, a > b ? a : b)
DICE_REDUCE_(__reduce_and_sync, unsigned, a& b)
DICE_REDUCE_(__reduce_or_sync, unsigned, a | b)
DICE_REDUCE_(__reduce_xor_sync, unsigned, a ^ b)
#undef DICE_REDUCE_

namespace dice_emulate {
template <typename T>
struct Same {
  using type = T;
};
template <typename T>
using Plain = typename Same<T>::type;  // not deduced from this argument
}  // namespace dice_emulate

#define DICE_ATOMIC_(name, expression)                            \
  template <typename T>                                           \
  DICE_FN_ T name(T* p, dice_emulate::Plain<T> v) {               \
    const T old = *p;                                             \
    *p = (expression);                                            \
    return old;                                                   \
  }                                                               \
  template <typename T>                                           \
  DICE_FN_ T name##_block(T* p, dice_emulate::Plain<T> v) {       \
    return name(p, v);                                            \
  }                                                               \
  template <typename T>                                           \
  DICE_FN_ T name##_system(T* p, dice_emulate::Plain<T> v) {      \
    return name(p, v);                                            \
  }
DICE_ATOMIC_(atomicAdd, T(old + v))
DICE_ATOMIC_(atomicSub, T(old - v))
DICE_ATOMIC_(atomicMin, v < old ? v : old)
DICE_ATOMIC_(atomicMax, v > old ? v : old)
DICE_ATOMIC_(atomicAnd, T(old& v))
DICE_ATOMIC_(atomicOr, T(old | v))
DICE_ATOMIC_(atomicXor, T(old ^ v))
DICE_ATOMIC_(atomicExch, v)
DICE_ATOMIC_(atomicInc, old >= v ? T(0) : T(old + 1))
DICE_ATOMIC_(atomicDec, (old == 0 || old > v) ? v : T(old - 1))
#undef DICE_ATOMIC_
template <typename T>
DICE_FN_ T atomicCAS(T* p, dice_emulate::Plain<T> expected,
                     dice_emulate::Plain<T> desired) {
  const T old = *p;
  if (old == expected) *p = desired;
  return old;
}

DICE_FN_ long long clock64() { return (long long)__builtin_ia32_rdtsc(); }
[[noreturn]] inline void __trap() {
  dice_emulate::dice_fail("unspecified launch failure (__trap)");
}

#endif  // DICE_EMULATE_COLLECTIVES_H_
