// CUDA's spelling of types and qualifiers for a host compiler. Needs no other
// header, so that a plain kernel compiles in a few milliseconds.
#ifndef DICE_EMULATE_TYPES_H_
#define DICE_EMULATE_TYPES_H_

typedef __SIZE_TYPE__ size_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;

#ifndef NULL
#define NULL __null
#endif
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef FLT_MAX
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#endif
#ifndef INT_MAX
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#define LLONG_MAX __LONG_LONG_MAX__
#define LLONG_MIN (-__LONG_LONG_MAX__ - 1LL)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef CUDART_INF_F
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// One block runs at a time, so its shared memory can be static.
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000

struct uint3 {
  unsigned int x, y, z;
};
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1)
      : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#define DICE_VECTOR_TYPES_(T, N, A1, A2, A4)                            \
  struct N##1 {                                                         \
    T x;                                                                \
  };                                                                    \
  struct __attribute__((aligned(A2))) N##2 {                            \
    T x, y;                                                             \
  };                                                                    \
  struct __attribute__((aligned(A4))) N##4 {                            \
    T x, y, z, w;                                                       \
  };                                                                    \
  inline N##1 make_##N##1(T x) { return {x}; }                          \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; }                  \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define DICE_VECTOR_TYPE3_(T, N) \
  struct N##3 {                  \
    T x, y, z;                   \
  };                             \
  inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }

DICE_VECTOR_TYPES_(signed char, char, 1, 2, 4)
DICE_VECTOR_TYPES_(unsigned char, uchar, 1, 2, 4)
DICE_VECTOR_TYPES_(short, short, 2, 4, 8)
DICE_VECTOR_TYPES_(unsigned short, ushort, 2, 4, 8)
DICE_VECTOR_TYPES_(int, int, 4, 8, 16)
DICE_VECTOR_TYPES_(unsigned int, uint, 4, 8, 16)
DICE_VECTOR_TYPES_(long, long, 8, 16, 16)
DICE_VECTOR_TYPES_(unsigned long, ulong, 8, 16, 16)
DICE_VECTOR_TYPES_(long long, longlong, 8, 16, 16)
DICE_VECTOR_TYPES_(unsigned long long, ulonglong, 8, 16, 16)
DICE_VECTOR_TYPES_(float, float, 4, 8, 16)
DICE_VECTOR_TYPES_(double, double, 8, 16, 16)
DICE_VECTOR_TYPE3_(signed char, char)
DICE_VECTOR_TYPE3_(unsigned char, uchar)
DICE_VECTOR_TYPE3_(short, short)
DICE_VECTOR_TYPE3_(int, int)
DICE_VECTOR_TYPE3_(float, float)
DICE_VECTOR_TYPE3_(double, double)
DICE_VECTOR_TYPE3_(long long, longlong)
inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) {
  return {x, y, z};
}
#undef DICE_VECTOR_TYPES_
#undef DICE_VECTOR_TYPE3_

#endif  // DICE_EMULATE_TYPES_H_
