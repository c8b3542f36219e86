// The names under which extensions reach the facade: torch::, at::, c10::, the
// check macros, the current stream, and the runtime calls that need no memory.
#ifndef DICE_EMULATE_TORCH_NAMES_H_
#define DICE_EMULATE_TORCH_NAMES_H_

#include "tensor_ops.h"

namespace c10 {
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte,
                     kChar = ScalarType::Char, kInt8 = ScalarType::Char,
                     kShort = ScalarType::Short, kInt16 = ScalarType::Short,
                     kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                     kLong = ScalarType::Long, kInt64 = ScalarType::Long,
                     kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kFloat = ScalarType::Float, kFloat32 = ScalarType::Float,
                     kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
constexpr Layout kStrided = Layout::Strided;
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions dtype(TypeMeta t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
template <typename A, typename B>
constexpr auto ceil_div(A a, B b) { return (a + b - 1) / b; }
}  // namespace c10

typedef enum cudaError {
  cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9, cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719
} cudaError_t;
typedef struct CUstream_st* cudaStream_t;

extern "C" {
// The last launch error; `clear` forgets it.
DICE_HIDDEN int dice_last_error(bool clear);
DICE_HIDDEN const char* dice_error_string(int error);
}
inline cudaError_t cudaGetLastError() { return cudaError_t(dice_last_error(true)); }
inline cudaError_t cudaPeekAtLastError() { return cudaError_t(dice_last_error(false)); }
inline const char* cudaGetErrorString(cudaError_t e) { return dice_error_string(e); }
inline const char* cudaGetErrorName(cudaError_t e) { return dice_error_string(e); }
inline cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }

namespace c10::cuda {
struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
  operator cudaStream_t() const { return nullptr; }
  void synchronize() const {}
  int device_index() const { return 0; }
};
inline CUDAStream getCurrentCUDAStream(int = -1) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = -1) { return {}; }
inline int device_count() { return 1; }
inline int current_device() { return 0; }
inline void device_synchronize() {}
struct CUDAGuard {
  explicit CUDAGuard(int) {}
  explicit CUDAGuard(Device) {}
};
using OptionalCUDAGuard = CUDAGuard;
}  // namespace c10::cuda
namespace at {
using c10::IntArrayRef;
namespace cuda {
using namespace c10::cuda;
}
using DeviceGuard = c10::cuda::CUDAGuard;
inline Device device_of(const Tensor& t) { return t.device(); }
}  // namespace at
namespace torch {
using namespace at;
inline Tensor empty_strided(IntArrayRef s, IntArrayRef strides, const TensorOptions& o) {
  int64_t span = 1;
  for (size_t d = 0; d < s.size(); ++d) span += (s[d] - 1) * strides[d];
  return at::empty(span, o).as_strided(s, strides);
}
}  // namespace torch

namespace dice_emulate {
#ifndef DICE_EMULATE_STL
// Without streams only the literals of a message are kept.
inline const char* Message() { return ""; }
template <typename... T>
inline const char* Message(const char* first, const T&...) { return first; }
template <typename F, typename... T>
inline const char* Message(const F&, const T&...) { return ""; }
#else
template <typename... T>
inline std::string Message(const T&... parts) {
  std::ostringstream out;
  (void)(out << ... << parts);
  return out.str();
}
inline const char* AsText(const std::string& s) { return s.c_str(); }
#endif
inline const char* AsText(const char* s) { return s; }
inline void CheckCuda(cudaError_t e) {
  if (e != cudaSuccess) dice_fail("CUDA error: %s", dice_error_string(e));
}
}  // namespace dice_emulate

#define TORCH_CHECK(condition, ...)                                       \
  do {                                                                    \
    if (!(condition))                                                     \
      dice_emulate::dice_fail(                                            \
          "%s", dice_emulate::AsText(dice_emulate::Message(__VA_ARGS__))); \
  } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b), "Check failed: " #a " == " #b)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK((a) > (b), "Check failed: " #a " > " #b)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK((a) >= (b), "Check failed: " #a " >= " #b)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b), "Check failed: " #a " <= " #b)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK((a) < (b), "Check failed: " #a " < " #b)
#define AT_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) TORCH_CHECK(false, __VA_ARGS__)
#define TORCH_WARN(...) (void)0
#define C10_CUDA_CHECK(expression) dice_emulate::CheckCuda(cudaError_t(expression))
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK
#define AT_CUDA_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK

#endif  // DICE_EMULATE_TORCH_NAMES_H_
