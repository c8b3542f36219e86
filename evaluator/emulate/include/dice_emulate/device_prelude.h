// What nvcc and torch/extension.h give to device code and NVRTC alone does not.
// Read as text and put before a candidate's device text; DICE_STD and
// DICE_TORCH are defined when the text names std or torch.
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807L
#define UINT8_MAX 255
#define UINT32_MAX 4294967295U
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef NULL
#define NULL 0
#endif
#define HUGE_VALF INFINITY
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_PI_F 3.141592654f
#define assert(e) ((e) ? (void)0 : __trap())

#ifdef DICE_STD
namespace std {
using ::size_t;
template <typename T> struct numeric_limits;
#define DICE_LIMITS(T, LOW, HIGH, MIN)                                   \
  template <> struct numeric_limits<T> {                                 \
    static constexpr __host__ __device__ T lowest() { return LOW; }      \
    static constexpr __host__ __device__ T max() { return HIGH; }        \
    static constexpr __host__ __device__ T min() { return MIN; }         \
    static __host__ __device__ T infinity() { return static_cast<T>(INFINITY); }      \
    static __host__ __device__ T quiet_NaN() { return static_cast<T>(NAN); }          \
    static constexpr __host__ __device__ T epsilon() { return static_cast<T>(sizeof(T) == 4 ? FLT_EPSILON : DBL_EPSILON); } \
  };
DICE_LIMITS(float, -FLT_MAX, FLT_MAX, FLT_MIN)
DICE_LIMITS(double, -DBL_MAX, DBL_MAX, DBL_MIN)
DICE_LIMITS(int, INT_MIN, INT_MAX, INT_MIN)
DICE_LIMITS(unsigned, 0, UINT_MAX, 0)
DICE_LIMITS(long, -INT64_MAX - 1, INT64_MAX, -INT64_MAX - 1)
DICE_LIMITS(long long, LLONG_MIN, LLONG_MAX, LLONG_MIN)
#undef DICE_LIMITS
template <bool b, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { using type = T; };
template <bool b, typename T = void> using enable_if_t = typename enable_if<b, T>::type;
template <typename T, typename U> struct is_same { static constexpr bool value = false; };
template <typename T> struct is_same<T, T> { static constexpr bool value = true; };
template <typename T, typename U> inline constexpr bool is_same_v = is_same<T, U>::value;
template <bool b, typename T, typename U> struct conditional { using type = T; };
template <typename T, typename U> struct conditional<false, T, U> { using type = U; };
template <bool b, typename T, typename U> using conditional_t = typename conditional<b, T, U>::type;
template <typename T> struct is_floating_point { static constexpr bool value = is_same_v<T, float> || is_same_v<T, double>; };
template <typename T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <typename T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <typename T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <typename T> __host__ __device__ constexpr T&& move(T& t) { return static_cast<T&&>(t); }
template <typename T> __host__ __device__ constexpr void swap(T& a, T& b) { T t = a; a = b; b = t; }
#define DICE_STD_FN(f) \
  __device__ inline float f(float x) { return ::f(x); } \
  __device__ inline double f(double x) { return ::f(x); }
DICE_STD_FN(sqrt) DICE_STD_FN(exp) DICE_STD_FN(log) DICE_STD_FN(log2) DICE_STD_FN(log1p) DICE_STD_FN(expm1)
DICE_STD_FN(sin) DICE_STD_FN(cos) DICE_STD_FN(tan) DICE_STD_FN(asin) DICE_STD_FN(acos) DICE_STD_FN(atan)
DICE_STD_FN(sinh) DICE_STD_FN(cosh) DICE_STD_FN(tanh) DICE_STD_FN(erf) DICE_STD_FN(fabs) DICE_STD_FN(abs)
DICE_STD_FN(floor) DICE_STD_FN(ceil) DICE_STD_FN(round) DICE_STD_FN(trunc)
#undef DICE_STD_FN
__device__ inline float pow(float x, float y) { return ::powf(x, y); }
__device__ inline double pow(double x, double y) { return ::pow(x, y); }
__device__ inline float fmax(float x, float y) { return ::fmaxf(x, y); }
__device__ inline float fmin(float x, float y) { return ::fminf(x, y); }
__device__ inline bool isnan(float x) { return ::isnan(x); }
__device__ inline bool isinf(float x) { return ::isinf(x); }
__device__ inline bool isfinite(float x) { return ::isfinite(x); }
}  // namespace std
#endif  // DICE_STD

#ifdef DICE_TORCH
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}
namespace at {
using namespace c10;
template <typename T> struct RestrictPtrTraits {};
template <typename T> struct DefaultPtrTraits {};
template <typename T, int n, typename I> struct DiceAccessor {
  T* data_; const I* sizes_; const I* strides_;
  __device__ DiceAccessor<T, n - 1, I> operator[](I i) const { return {data_ + i * strides_[0], sizes_ + 1, strides_ + 1}; }
  __device__ I size(int d) const { return sizes_[d]; }
  __device__ I stride(int d) const { return strides_[d]; }
};
template <typename T, typename I> struct DiceAccessor<T, 1, I> {
  T* data_; const I* sizes_; const I* strides_;
  __device__ T& operator[](I i) const { return data_[i * strides_[0]]; }
  __device__ I size(int d) const { return sizes_[d]; }
};
template <typename T, size_t n, typename I> struct DicePacked {
  T* data_; I sizes_[n]; I strides_[n];
  __device__ decltype(auto) operator[](I i) const { return DiceAccessor<T, int(n), I>{data_, sizes_, strides_}[i]; }
  __device__ I size(int d) const { return sizes_[d]; }
  __device__ I stride(int d) const { return strides_[d]; }
  __device__ T* data() const { return data_; }
};
template <typename T, size_t n, template <typename> class P = DefaultPtrTraits> using PackedTensorAccessor32 = DicePacked<T, n, int>;
template <typename T, size_t n, template <typename> class P = DefaultPtrTraits> using PackedTensorAccessor64 = DicePacked<T, n, long>;
}  // namespace at
namespace torch { using namespace at; }
#endif  // DICE_TORCH
