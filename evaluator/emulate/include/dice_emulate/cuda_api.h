// The CUDA runtime calls that a launcher makes around its kernels. Streams and
// events are names: all work is done when a launch returns.
#ifndef DICE_EMULATE_CUDA_API_H_
#define DICE_EMULATE_CUDA_API_H_

#include "stl.h"
#include "torch_names.h"

extern "C" DICE_HIDDEN void dice_set_dynamic_limit(size_t bytes);

enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache {
  cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10, cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
struct cudaDeviceProp {
  char name[256] = "emulated";
  size_t totalGlobalMem = size_t{16} << 30, sharedMemPerBlock = 49152,
         sharedMemPerBlockOptin = 232448, sharedMemPerMultiprocessor = 233472;
  int regsPerBlock = 65536, warpSize = 32, maxThreadsPerBlock = 1024;
  int maxThreadsDim[3] = {1024, 1024, 64};
  int maxGridSize[3] = {2147483647, 65535, 65535};
  int major = 9, minor = 0, multiProcessorCount = 132;
  int maxThreadsPerMultiProcessor = 2048, l2CacheSize = 52428800;
};
typedef struct CUevent_st* cudaEvent_t;
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1,
       cudaEventDefault = 0, cudaEventDisableTiming = 2 };

inline cudaError_t cudaMalloc(void** p, size_t n) {
  *p = std::malloc(n ? n : 1);
  if (*p) std::memset(*p, 0xff, n);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <typename T>
cudaError_t cudaMalloc(T** p, size_t n) {
  return cudaMalloc(reinterpret_cast<void**>(p), n);
}
template <typename T>
cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t) {
  return cudaMalloc(p, n);
}
template <typename T>
cudaError_t cudaMallocManaged(T** p, size_t n, unsigned = 1) {
  return cudaMalloc(p, n);
}
template <typename T>
cudaError_t cudaMallocHost(T** p, size_t n) {
  return cudaMalloc(p, n);
}
inline cudaError_t cudaFree(void* p) { return std::free(p), cudaSuccess; }
inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t n,
                              cudaMemcpyKind) {
  return std::memmove(to, from, n), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n,
                                   cudaMemcpyKind, cudaStream_t = nullptr) {
  return std::memmove(to, from, n), cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, size_t n) {
  return std::memset(to, value, n), cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t n,
                                   cudaStream_t = nullptr) {
  return cudaMemset(to, value, n);
}
template <typename T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t n,
                               size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
  if (offset + n > sizeof(symbol)) return cudaErrorInvalidValue;
  std::memcpy(const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol)) + offset, from, n);
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t n,
                                    size_t offset, cudaMemcpyKind kind,
                                    cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, n, offset, kind);
}
template <typename T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t n,
                                 size_t offset = 0,
                                 cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  if (offset + n > sizeof(symbol)) return cudaErrorInvalidValue;
  std::memcpy(to, reinterpret_cast<const char*>(&symbol) + offset, n);
  return cudaSuccess;
}
template <typename F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute a, int value) {
  if (a != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > 232448) return cudaErrorInvalidValue;
  return dice_set_dynamic_limit(size_t(value)), cudaSuccess;
}
template <typename F>
cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) { return cudaSuccess; }
template <typename F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, F, int, size_t) {
  return *n = 2, cudaSuccess;
}
template <typename F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F,
                                               size_t = 0, int = 0) {
  return *grid = 264, *block = 256, cudaSuccess;
}

inline cudaError_t cudaSetDevice(int d) { return d ? cudaErrorInvalidValue : cudaSuccess; }
inline cudaError_t cudaGetDevice(int* d) { return *d = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  return *p = cudaDeviceProp(), cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  switch (a) {
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMultiProcessorCount: *v = 132; break;
    default: *v = 232448; break;
  }
  return cudaSuccess;
}
namespace at::cuda {
inline const cudaDeviceProp* getCurrentDeviceProperties() {
  static const cudaDeviceProp properties;
  return &properties;
}
inline const cudaDeviceProp* getDeviceProperties(int64_t) {
  return getCurrentDeviceProperties();
}
}  // namespace at::cuda

inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return *s = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return *e = nullptr, cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 0, cudaSuccess; }

#endif  // DICE_EMULATE_CUDA_API_H_
