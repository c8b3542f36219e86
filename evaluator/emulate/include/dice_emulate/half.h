// __half and __nv_bfloat16 by the compiler's _Float16 and by hand, their
// vector-of-two forms, and c10's types, which are the same.
#ifndef DICE_EMULATE_HALF_H_
#define DICE_EMULATE_HALF_H_

#include "collectives.h"
#include "scalar_type.h"

// Arithmetic rounds after every operation, as the hardware's does.
#define DICE_SMALL_FLOAT_OPS_(T)                                            \
  friend T operator+(T a, T b) { return T(float(a) + float(b)); }           \
  friend T operator-(T a, T b) { return T(float(a) - float(b)); }           \
  friend T operator*(T a, T b) { return T(float(a) * float(b)); }           \
  friend T operator/(T a, T b) { return T(float(a) / float(b)); }           \
  friend T operator-(T a) { return T(-float(a)); }                          \
  friend T& operator+=(T& a, T b) { return a = a + b; }                     \
  friend T& operator-=(T& a, T b) { return a = a - b; }                     \
  friend T& operator*=(T& a, T b) { return a = a * b; }                     \
  friend T& operator/=(T& a, T b) { return a = a / b; }                     \
  friend bool operator<(T a, T b) { return float(a) < float(b); }           \
  friend bool operator>(T a, T b) { return float(a) > float(b); }           \
  friend bool operator<=(T a, T b) { return float(a) <= float(b); }         \
  friend bool operator>=(T a, T b) { return float(a) >= float(b); }         \
  friend bool operator==(T a, T b) { return float(a) == float(b); }         \
  friend bool operator!=(T a, T b) { return float(a) != float(b); }
#define DICE_FROM_ARITHMETIC_(T) \
  T(double v) : T(float(v)) {}   \
  T(int v) : T(float(v)) {}      \
  T(unsigned v) : T(float(v)) {} \
  T(long v) : T(float(v)) {}     \
  T(unsigned long v) : T(float(v)) {}

namespace c10 {
struct Half {
  Half() = default;
  Half(float v) : bits(__builtin_bit_cast(unsigned short, _Float16(v))) {}
  DICE_FROM_ARITHMETIC_(Half)
  operator float() const { return float(__builtin_bit_cast(_Float16, bits)); }
  DICE_SMALL_FLOAT_OPS_(Half)
  unsigned short bits;
};
struct BFloat16 {
  BFloat16() = default;
  BFloat16(float v) {
    const unsigned u = __builtin_bit_cast(unsigned, v);
    bits = v != v ? 0x7fff
                  : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  DICE_FROM_ARITHMETIC_(BFloat16)
  operator float() const { return __builtin_bit_cast(float, unsigned(bits) << 16); }
  DICE_SMALL_FLOAT_OPS_(BFloat16)
  unsigned short bits;
};
}  // namespace c10
#undef DICE_FROM_ARITHMETIC_
#undef DICE_SMALL_FLOAT_OPS_

typedef c10::Half __half;
typedef c10::Half half;
typedef c10::BFloat16 __nv_bfloat16;
typedef c10::BFloat16 nv_bfloat16;

namespace dice_emulate {
template <typename T>
struct __attribute__((aligned(4))) Two {
  T x, y;
};
}  // namespace dice_emulate
typedef dice_emulate::Two<c10::Half> __half2;
typedef dice_emulate::Two<c10::Half> half2;
typedef dice_emulate::Two<c10::BFloat16> __nv_bfloat162;
typedef dice_emulate::Two<c10::BFloat16> nv_bfloat162;

DICE_FN_ float __half2float(half h) { return h; }
DICE_FN_ half __float2half(float f) { return half(f); }
DICE_FN_ half __float2half_rn(float f) { return half(f); }
DICE_FN_ half __double2half(double f) { return half(float(f)); }
DICE_FN_ half __int2half_rn(int i) { return half(float(i)); }
DICE_FN_ int __half2int_rn(half h) { return int(__builtin_rintf(h)); }
DICE_FN_ half __ushort_as_half(unsigned short u) {
  return __builtin_bit_cast(half, u);
}
DICE_FN_ unsigned short __half_as_ushort(half h) { return h.bits; }
DICE_FN_ float __bfloat162float(nv_bfloat16 h) { return h; }
DICE_FN_ nv_bfloat16 __float2bfloat16(float f) { return nv_bfloat16(f); }
DICE_FN_ nv_bfloat16 __float2bfloat16_rn(float f) { return nv_bfloat16(f); }
DICE_FN_ half2 __floats2half2_rn(float a, float b) { return {half(a), half(b)}; }
DICE_FN_ half2 __float2half2_rn(float a) { return {half(a), half(a)}; }
DICE_FN_ float2 __half22float2(half2 h) { return {h.x, h.y}; }
DICE_FN_ half2 __float22half2_rn(float2 f) { return {half(f.x), half(f.y)}; }
DICE_FN_ half2 __halves2half2(half a, half b) { return {a, b}; }
DICE_FN_ half2 __half2half2(half a) { return {a, a}; }
DICE_FN_ half2 make_half2(half a, half b) { return {a, b}; }
DICE_FN_ half __low2half(half2 h) { return h.x; }
DICE_FN_ half __high2half(half2 h) { return h.y; }
DICE_FN_ float __low2float(half2 h) { return h.x; }
DICE_FN_ float __high2float(half2 h) { return h.y; }
DICE_FN_ nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {nv_bfloat16(a), nv_bfloat16(b)};
}
DICE_FN_ float2 __bfloat1622float2(nv_bfloat162 h) { return {h.x, h.y}; }

// One argument list for both element types and their pairs.
#define DICE_HALF2_(name, T, expression)          \
  DICE_FN_ T name(T a, T b) { return expression; } \
  DICE_FN_ dice_emulate::Two<T> name##2(dice_emulate::Two<T> a, \
                                        dice_emulate::Two<T> b) { \
    return {name(a.x, b.x), name(a.y, b.y)};      \
  }
#define DICE_HALF_OPS_(T)                                     \
  DICE_HALF2_(__hadd, T, a + b)                               \
  DICE_HALF2_(__hsub, T, a - b)                               \
  DICE_HALF2_(__hmul, T, a * b)                               \
  DICE_HALF2_(__hmax, T, a > b ? a : b)                       \
  DICE_HALF2_(__hmin, T, a < b ? a : b)                       \
  DICE_FN_ T __hdiv(T a, T b) { return a / b; }               \
  DICE_FN_ T __hneg(T a) { return -a; }                       \
  DICE_FN_ T __habs(T a) { return T(__builtin_fabsf(a)); }    \
  DICE_FN_ T __hfma(T a, T b, T c) {                          \
    return T(__builtin_fmaf(a, b, c));                        \
  }                                                           \
  DICE_FN_ dice_emulate::Two<T> __hfma2(dice_emulate::Two<T> a, \
                                        dice_emulate::Two<T> b, \
                                        dice_emulate::Two<T> c) { \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};    \
  }                                                           \
  DICE_FN_ bool __hgt(T a, T b) { return a > b; }             \
  DICE_FN_ bool __hlt(T a, T b) { return a < b; }             \
  DICE_FN_ bool __hge(T a, T b) { return a >= b; }            \
  DICE_FN_ bool __hle(T a, T b) { return a <= b; }            \
  DICE_FN_ bool __heq(T a, T b) { return a == b; }            \
  DICE_FN_ bool __hisnan(T a) { return a != a; }              \
  DICE_FN_ T hexp(T a) { return T(__builtin_expf(a)); }       \
  DICE_FN_ T hlog(T a) { return T(__builtin_logf(a)); }       \
  DICE_FN_ T hsqrt(T a) { return T(__builtin_sqrtf(a)); }     \
  DICE_FN_ T hrsqrt(T a) { return T(rsqrtf(a)); }             \
  DICE_FN_ T hrcp(T a) { return T(1.0f / float(a)); }         \
  DICE_FN_ T htanh(T a) { return T(__builtin_tanhf(a)); }     \
  DICE_FN_ T hsin(T a) { return T(__builtin_sinf(a)); }       \
  DICE_FN_ T hcos(T a) { return T(__builtin_cosf(a)); }       \
  DICE_FN_ dice_emulate::Two<T> operator+(dice_emulate::Two<T> a, \
                                          dice_emulate::Two<T> b) { \
    return {a.x + b.x, a.y + b.y};                            \
  }                                                           \
  DICE_FN_ dice_emulate::Two<T> operator*(dice_emulate::Two<T> a, \
                                          dice_emulate::Two<T> b) { \
    return {a.x * b.x, a.y * b.y};                            \
  }
DICE_HALF_OPS_(c10::Half)
DICE_HALF_OPS_(c10::BFloat16)
#undef DICE_HALF_OPS_
#undef DICE_HALF2_

#endif  // DICE_EMULATE_HALF_H_
