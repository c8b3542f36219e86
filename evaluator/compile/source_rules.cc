#include "evaluator/compile/source_rules.h"

#include <algorithm>
#include <iterator>

namespace dice {
namespace {

template <size_t n>
bool In(const std::string_view (&sorted)[n], std::string_view name) {
  return std::binary_search(std::begin(sorted), std::end(sorted), name);
}

// Sorted.
constexpr std::string_view kStandard[] = {
    "algorithm",     "array",         "assert.h",    "atomic",
    "bitset",        "cassert",       "cfloat",      "chrono",
    "climits",       "cmath",         "cstddef",     "cstdint",
    "cstdio",        "cstdlib",       "cstring",     "deque",
    "exception",     "float.h",       "functional",  "initializer_list",
    "inttypes.h",    "iomanip",       "iostream",    "iterator",
    "limits",        "limits.h",      "list",        "map",
    "math.h",        "memory",        "mutex",       "new",
    "numeric",       "optional",      "ostream",     "queue",
    "ratio",         "set",           "sstream",     "stack",
    "stdbool.h",     "stddef.h",      "stdexcept",   "stdint.h",
    "stdio.h",       "stdlib.h",      "string",      "string.h",
    "string_view",   "tuple",         "type_traits", "typeinfo",
    "unordered_map", "unordered_set", "utility",     "variant",
    "vector"};
constexpr std::string_view kDevice[] = {"cooperative_groups.h", "cuda_bf16.h",
                                        "cuda_fp16.h", "cuda_fp16.hpp",
                                        "math_constants.h"};
constexpr std::string_view kProvided[] = {
    "builtin_types.h",    "cublasLt.h",
    "cublas_v2.h",        "cuda.h",
    "cuda_runtime.h",     "cuda_runtime_api.h",
    "device_functions.h", "device_launch_parameters.h",
    "driver_types.h",     "host_defines.h",
    "math_functions.h",   "sm_20_intrinsics.h",
    "sm_30_intrinsics.h", "vector_functions.h",
    "vector_types.h"};
constexpr std::string_view kUnsupportedPrefixes[] = {
    "cub/",     "cuda/",         "cudnn",          "cufft",        "curand",
    "cusolver", "cusparse",      "cute/",          "cutlass/",     "mma.h",
    "cuda_fp8", "cuda_pipeline", "cuda_awbarrier", "cudaTypedefs", "nccl",
    "nvrtc",    "nvtx3/",        "nvToolsExt",     "texture_",     "surface_",
    "thrust/",  "thread",        "random",         "complex",      "crt/"};
constexpr std::string_view kHostNames[] = {"ATenOpCPU",
                                           "Tensor",
                                           "TensorOptions",
                                           "at",
                                           "c10",
                                           "cout",
                                           "cublasHandle_t",
                                           "cudaError_t",
                                           "cudaEvent_t",
                                           "cudaStream_t",
                                           "map",
                                           "pybind11",
                                           "string",
                                           "torch",
                                           "unordered_map",
                                           "vector"};
constexpr std::string_view kFacadeNames[] = {"GenericPackedTensorAccessor",
                                             "PYBIND11_MODULE",
                                             "PackedTensorAccessor32",
                                             "PackedTensorAccessor64",
                                             "accessor",
                                             "assert",
                                             "cooperative_groups",
                                             "getCurrentDeviceProperties",
                                             "half",
                                             "half2",
                                             "nullopt",
                                             "numeric_limits",
                                             "nv_bfloat16",
                                             "nv_bfloat162",
                                             "optional",
                                             "packed_accessor32",
                                             "packed_accessor64",
                                             "printf",
                                             "snprintf",
                                             "std",
                                             "string",
                                             "vec",
                                             "vector"};

bool StartsWith(std::string_view s, std::string_view prefix) {
  return s.substr(0, prefix.size()) == prefix;
}

}  // namespace

IncludeKind ClassifyInclude(std::string_view name) {
  if (name.find("..") != name.npos || StartsWith(name, "/"))
    return IncludeKind::kUnknown;
  if (In(kDevice, name) || StartsWith(name, "cooperative_groups/"))
    return IncludeKind::kDevice;
  if (In(kStandard, name)) return IncludeKind::kStandard;
  for (const std::string_view prefix : kUnsupportedPrefixes)
    if (StartsWith(name, prefix)) return IncludeKind::kUnsupported;
  if (In(kProvided, name) || StartsWith(name, "torch/") ||
      StartsWith(name, "ATen/") || StartsWith(name, "c10/") ||
      StartsWith(name, "pybind11/"))
    return IncludeKind::kProvided;
  return IncludeKind::kUnknown;
}

bool IsBarrierName(std::string_view name) {
  return StartsWith(name, "__syncthreads") || StartsWith(name, "__syncwarp") ||
         StartsWith(name, "__shfl") || StartsWith(name, "__ballot") ||
         StartsWith(name, "__any_sync") || StartsWith(name, "__all_sync") ||
         StartsWith(name, "__match_") || StartsWith(name, "__reduce_") ||
         name == "__activemask" || name == "cooperative_groups" ||
         name == "cg" || StartsWith(name, "this_thread_block") ||
         StartsWith(name, "tiled_partition") || name == "coalesced_threads";
}

bool IsHostName(std::string_view name) { return In(kHostNames, name); }

bool NeedsFacade(std::string_view name) {
  return In(kFacadeNames, name) || StartsWith(name, "AT_DISPATCH") ||
         StartsWith(name, "cublas") || StartsWith(name, "cudaM") ||
         StartsWith(name, "cudaEvent") || StartsWith(name, "cudaDevice") ||
         StartsWith(name, "__half") || StartsWith(name, "__nv_bf") ||
         StartsWith(name, "__float2half") || StartsWith(name, "__bfloat");
}

}  // namespace dice
