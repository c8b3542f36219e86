// CUDA's math functions. Without the standard library (DICE_EMULATE_STL unset)
// also the ones that <cmath> would bring.
#ifndef DICE_EMULATE_MATH_H_
#define DICE_EMULATE_MATH_H_

#ifdef DICE_EMULATE_STL
#include "stl.h"
#endif
#include "types.h"

#define DICE_FN_ inline __attribute__((always_inline))

#ifndef DICE_EMULATE_STL
// f(double), f(float), ff(float) by the compiler's builtins.
#define DICE_MATH1_(name)                                          \
  DICE_FN_ double name(double x) { return __builtin_##name(x); }   \
  DICE_FN_ float name(float x) { return __builtin_##name##f(x); }  \
  DICE_FN_ float name##f(float x) { return __builtin_##name##f(x); }
#define DICE_MATH2_(name)                                                   \
  DICE_FN_ double name(double x, double y) { return __builtin_##name(x, y); } \
  DICE_FN_ float name(float x, float y) { return __builtin_##name##f(x, y); } \
  DICE_FN_ double name(float x, double y) { return __builtin_##name(x, y); }  \
  DICE_FN_ double name(double x, float y) { return __builtin_##name(x, y); }  \
  DICE_FN_ float name##f(float x, float y) {                                  \
    return __builtin_##name##f(x, y);                                         \
  }
DICE_MATH1_(sqrt) DICE_MATH1_(exp) DICE_MATH1_(exp2) DICE_MATH1_(expm1)
DICE_MATH1_(log) DICE_MATH1_(log2) DICE_MATH1_(log10) DICE_MATH1_(log1p)
DICE_MATH1_(sin) DICE_MATH1_(cos) DICE_MATH1_(tan) DICE_MATH1_(asin)
DICE_MATH1_(acos) DICE_MATH1_(atan) DICE_MATH1_(sinh) DICE_MATH1_(cosh)
DICE_MATH1_(tanh) DICE_MATH1_(asinh) DICE_MATH1_(acosh) DICE_MATH1_(atanh)
DICE_MATH1_(erf) DICE_MATH1_(erfc) DICE_MATH1_(cbrt) DICE_MATH1_(tgamma)
DICE_MATH1_(lgamma) DICE_MATH1_(fabs) DICE_MATH1_(floor) DICE_MATH1_(ceil)
DICE_MATH1_(trunc) DICE_MATH1_(round) DICE_MATH1_(rint) DICE_MATH1_(nearbyint)
DICE_MATH1_(logb)
DICE_MATH2_(pow) DICE_MATH2_(atan2) DICE_MATH2_(fmod) DICE_MATH2_(hypot)
DICE_MATH2_(fmax) DICE_MATH2_(fmin) DICE_MATH2_(copysign) DICE_MATH2_(fdim)
DICE_MATH2_(remainder) DICE_MATH2_(nextafter)
#undef DICE_MATH1_
#undef DICE_MATH2_
DICE_FN_ double pow(double x, int n) { return __builtin_pow(x, n); }
DICE_FN_ float pow(float x, int n) { return __builtin_powf(x, float(n)); }
DICE_FN_ float powif(float x, int n) { return __builtin_powif(x, n); }
DICE_FN_ double fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
DICE_FN_ float fma(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
DICE_FN_ float fmaf(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
DICE_FN_ float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
DICE_FN_ double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
DICE_FN_ float frexpf(float x, int* e) { return __builtin_frexpf(x, e); }
DICE_FN_ double frexp(double x, int* e) { return __builtin_frexp(x, e); }
DICE_FN_ float modff(float x, float* i) { return __builtin_modff(x, i); }
DICE_FN_ double modf(double x, double* i) { return __builtin_modf(x, i); }
DICE_FN_ long lroundf(float x) { return __builtin_lroundf(x); }
DICE_FN_ long lrintf(float x) { return __builtin_lrintf(x); }
DICE_FN_ bool isnan(double x) { return __builtin_isnan(x); }
DICE_FN_ bool isnan(float x) { return __builtin_isnan(x); }
DICE_FN_ bool isinf(double x) { return __builtin_isinf(x); }
DICE_FN_ bool isinf(float x) { return __builtin_isinf(x); }
DICE_FN_ bool isfinite(double x) { return __builtin_isfinite(x); }
DICE_FN_ bool isfinite(float x) { return __builtin_isfinite(x); }
DICE_FN_ bool signbit(double x) { return __builtin_signbit(x); }
DICE_FN_ bool signbit(float x) { return __builtin_signbit(x); }
DICE_FN_ int abs(int x) { return __builtin_abs(x); }
DICE_FN_ long abs(long x) { return __builtin_labs(x); }
DICE_FN_ long long abs(long long x) { return __builtin_llabs(x); }
DICE_FN_ double abs(double x) { return __builtin_fabs(x); }
DICE_FN_ float abs(float x) { return __builtin_fabsf(x); }
DICE_FN_ void* memcpy(void* to, const void* from, size_t n) {
  return __builtin_memcpy(to, from, n);
}
DICE_FN_ void* memset(void* to, int c, size_t n) {
  return __builtin_memset(to, c, n);
}
#endif  // DICE_EMULATE_STL

#ifdef signbit
#undef signbit
#endif
DICE_FN_ float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
DICE_FN_ double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
DICE_FN_ float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
DICE_FN_ float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }
DICE_FN_ float fdividef(float x, float y) { return x / y; }
DICE_FN_ float exp10f(float x) { return __builtin_exp10f(x); }
DICE_FN_ double exp10(double x) { return __builtin_exp10(x); }
DICE_FN_ float sinpif(float x) { return float(__builtin_sin(M_PI * x)); }
DICE_FN_ float cospif(float x) { return float(__builtin_cos(M_PI * x)); }
DICE_FN_ float normcdff(float x) {
  return 0.5f * __builtin_erfcf(-x * float(M_SQRT1_2));
}
DICE_FN_ double normcdf(double x) { return 0.5 * __builtin_erfc(-x * M_SQRT1_2); }
DICE_FN_ float erfcxf(float x) {
  return float(__builtin_exp(double(x) * x) * __builtin_erfc(x));
}
DICE_FN_ float norm3df(float x, float y, float z) {
  return __builtin_sqrtf(x * x + y * y + z * z);
}
DICE_FN_ float saturatef_(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
#ifndef DICE_EMULATE_STL
DICE_FN_ void sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x), *c = __builtin_cosf(x);
}
DICE_FN_ void sincos(double x, double* s, double* c) {
  *s = __builtin_sin(x), *c = __builtin_cos(x);
}
#endif

// The same overloads as CUDA's, so that what is ambiguous there is here too.
#define DICE_MINMAX_(R, A, B)                          \
  DICE_FN_ constexpr R min(const A a, const B b) {     \
    return static_cast<R>(a) < static_cast<R>(b)       \
               ? static_cast<R>(a)                     \
               : static_cast<R>(b);                    \
  }                                                    \
  DICE_FN_ constexpr R max(const A a, const B b) {     \
    return static_cast<R>(a) > static_cast<R>(b)       \
               ? static_cast<R>(a)                     \
               : static_cast<R>(b);                    \
  }
#define DICE_MINMAX4_(S, U)                                               \
  DICE_MINMAX_(S, S, S) DICE_MINMAX_(U, U, U) DICE_MINMAX_(U, S, U) \
      DICE_MINMAX_(U, U, S)
DICE_MINMAX4_(int, unsigned int)
DICE_MINMAX4_(long, unsigned long)
DICE_MINMAX4_(long long, unsigned long long)
#undef DICE_MINMAX4_
#undef DICE_MINMAX_
// As on the device, a NaN loses against a number.
#define DICE_FMINMAX_(R, A, B, SUFFIX)                                    \
  DICE_FN_ R min(const A a, const B b) { return __builtin_fmin##SUFFIX(a, b); } \
  DICE_FN_ R max(const A a, const B b) { return __builtin_fmax##SUFFIX(a, b); }
DICE_FMINMAX_(float, float, float, f)
DICE_FMINMAX_(double, double, double, )
DICE_FMINMAX_(double, float, double, )
DICE_FMINMAX_(double, double, float, )
#undef DICE_FMINMAX_

#endif  // DICE_EMULATE_MATH_H_
