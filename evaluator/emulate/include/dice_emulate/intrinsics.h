// Device intrinsics with two underscores, bit tricks, casts and loads.
#ifndef DICE_EMULATE_INTRINSICS_H_
#define DICE_EMULATE_INTRINSICS_H_

#include "math.h"

#define DICE_FAST1_(name, f) \
  DICE_FN_ float name(float x) { return f(x); }
DICE_FAST1_(__expf, __builtin_expf)
DICE_FAST1_(__exp10f, __builtin_exp10f)
DICE_FAST1_(__logf, __builtin_logf)
DICE_FAST1_(__log2f, __builtin_log2f)
DICE_FAST1_(__log10f, __builtin_log10f)
DICE_FAST1_(__sinf, __builtin_sinf)
DICE_FAST1_(__cosf, __builtin_cosf)
DICE_FAST1_(__tanf, __builtin_tanf)
DICE_FAST1_(__tanhf, __builtin_tanhf)
DICE_FAST1_(__fsqrt_rn, __builtin_sqrtf)
DICE_FAST1_(__frsqrt_rn, rsqrtf)
DICE_FAST1_(__saturatef, saturatef_)
#undef DICE_FAST1_
DICE_FN_ void __sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x), *c = __builtin_cosf(x);
}
DICE_FN_ float __powf(float x, float y) { return __builtin_powf(x, y); }
DICE_FN_ float __fdividef(float x, float y) { return x / y; }
DICE_FN_ float __frcp_rn(float x) { return 1.0f / x; }
DICE_FN_ float __fadd_rn(float x, float y) { return x + y; }
DICE_FN_ float __fsub_rn(float x, float y) { return x - y; }
DICE_FN_ float __fmul_rn(float x, float y) { return x * y; }
DICE_FN_ float __fdiv_rn(float x, float y) { return x / y; }
DICE_FN_ float __fmaf_rn(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
DICE_FN_ double __dadd_rn(double x, double y) { return x + y; }
DICE_FN_ double __dmul_rn(double x, double y) { return x * y; }
DICE_FN_ double __ddiv_rn(double x, double y) { return x / y; }
DICE_FN_ double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
DICE_FN_ double __fma_rn(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}

namespace dice_emulate {
// Out-of-range casts saturate and NaN gives 0, as on the device.
template <typename I, typename F>
DICE_FN_ I Saturate(F x, F low, F high) {
  if (!(x == x)) return 0;
  if (x <= low) return I(low);
  if (x >= high) return high == F(__INT_MAX__) ? __INT_MAX__ : I(high);
  return I(x);
}
template <typename F>
DICE_FN_ int ToInt(F x) {
  return Saturate<int>(double(x), -2147483648.0, 2147483647.0);
}
template <typename F>
DICE_FN_ unsigned ToUint(F x) {
  return Saturate<unsigned>(double(x), 0.0, 4294967295.0);
}
template <typename To, typename From>
DICE_FN_ To Bits(From x) {
  return __builtin_bit_cast(To, x);
}
}  // namespace dice_emulate

#define DICE_CAST_(suffix, fn)                                   \
  DICE_FN_ int __float2int_##suffix(float x) {                   \
    return dice_emulate::ToInt(fn(x));                           \
  }                                                              \
  DICE_FN_ unsigned __float2uint_##suffix(float x) {             \
    return dice_emulate::ToUint(fn(x));                          \
  }                                                              \
  DICE_FN_ int __double2int_##suffix(double x) {                 \
    return dice_emulate::ToInt(fn(x));                           \
  }                                                              \
  DICE_FN_ long long __float2ll_##suffix(float x) {              \
    return (long long)fn(x);                                     \
  }
DICE_CAST_(rn, __builtin_rint)
DICE_CAST_(rz, __builtin_trunc)
DICE_CAST_(rd, __builtin_floor)
DICE_CAST_(ru, __builtin_ceil)
#undef DICE_CAST_
DICE_FN_ float __int2float_rn(int x) { return float(x); }
DICE_FN_ float __uint2float_rn(unsigned x) { return float(x); }
DICE_FN_ double __int2double_rn(int x) { return x; }
DICE_FN_ float __ll2float_rn(long long x) { return float(x); }
DICE_FN_ float __double2float_rn(double x) { return float(x); }
DICE_FN_ int __float_as_int(float x) { return dice_emulate::Bits<int>(x); }
DICE_FN_ unsigned __float_as_uint(float x) {
  return dice_emulate::Bits<unsigned>(x);
}
DICE_FN_ float __int_as_float(int x) { return dice_emulate::Bits<float>(x); }
DICE_FN_ float __uint_as_float(unsigned x) {
  return dice_emulate::Bits<float>(x);
}
DICE_FN_ long long __double_as_longlong(double x) {
  return dice_emulate::Bits<long long>(x);
}
DICE_FN_ double __longlong_as_double(long long x) {
  return dice_emulate::Bits<double>(x);
}

DICE_FN_ int __clz(int x) { return x ? __builtin_clz(x) : 32; }
DICE_FN_ int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
DICE_FN_ int __ffs(int x) { return __builtin_ffs(x); }
DICE_FN_ int __ffsll(long long x) { return __builtin_ffsll(x); }
DICE_FN_ int __popc(unsigned x) { return __builtin_popcount(x); }
DICE_FN_ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
DICE_FN_ unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
DICE_FN_ int __mul24(int x, int y) { return x * y; }
DICE_FN_ unsigned __umul24(unsigned x, unsigned y) { return x * y; }
DICE_FN_ int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
DICE_FN_ unsigned __umulhi(unsigned x, unsigned y) {
  return unsigned((unsigned long long)x * y >> 32);
}
DICE_FN_ unsigned __sad(int x, int y, unsigned z) {
  return z + unsigned(x < y ? y - x : x - y);
}
DICE_FN_ unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return unsigned(((unsigned long long)hi << 32 | lo) << (s & 31) >> 32);
}
DICE_FN_ unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return unsigned(((unsigned long long)hi << 32 | lo) >> (s & 31));
}

#define DICE_LOAD_(name) \
  template <typename T>  \
  DICE_FN_ T name(const T* p) { return *p; }
DICE_LOAD_(__ldg) DICE_LOAD_(__ldca) DICE_LOAD_(__ldcg) DICE_LOAD_(__ldcs)
DICE_LOAD_(__ldlu) DICE_LOAD_(__ldcv)
#undef DICE_LOAD_
#define DICE_STORE_(name)      \
  template <typename T>        \
  DICE_FN_ void name(T* p, T v) { *p = v; }
DICE_STORE_(__stcg) DICE_STORE_(__stcs) DICE_STORE_(__stwb) DICE_STORE_(__stwt)
#undef DICE_STORE_

DICE_FN_ void __threadfence() {}
DICE_FN_ void __threadfence_block() {}
DICE_FN_ void __threadfence_system() {}
DICE_FN_ void __nanosleep(unsigned) {}

#endif  // DICE_EMULATE_INTRINSICS_H_
