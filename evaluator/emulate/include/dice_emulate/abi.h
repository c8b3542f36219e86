// What a compiled candidate, the runtime linked into it and facade.py agree on.
//
// A call passes 64-bit words. One value is a tag and its payload:
//   0 none | 1 int, v | 2 float, bits of a double | 3 bool, v
//   4 string, bytes, then the bytes padded to words
//   5 tensor, data, dtype, device, ndim, sizes.., strides..   (into the call)
//   5 tensor, index of an argument or -1, DLPack pointer or 0,
//     offset in elements, ndim, sizes.., strides..            (out of the call)
//   6 list, n, then n values | 7 tuple, n, then n values
#ifndef DICE_EMULATE_ABI_H_
#define DICE_EMULATE_ABI_H_

#include "types.h"

#define DICE_HIDDEN __attribute__((visibility("hidden")))
#define DICE_EXPORT extern "C" __attribute__((visibility("default")))

// Thread and block of the running kernel: plain variables, since a candidate
// is emulated on one thread.
extern DICE_HIDDEN uint3 threadIdx;
extern DICE_HIDDEN uint3 blockIdx;
extern DICE_HIDDEN dim3 blockDim;
extern DICE_HIDDEN dim3 gridDim;
static constexpr int warpSize = 32;

namespace dice_emulate {

enum Tag : int64_t {
  kNone, kInt, kFloat, kBool, kString, kTensor, kList, kTuple
};
enum : int { kMaxDims = 12, kCpu = 0, kCuda = 1 };
enum Fill : int { kPoison, kZero };

// Memory of one or more tensors: allocated here between two guard zones, or
// borrowed from an argument of the running call.
struct Storage {
  int64_t references;
  char* data;
  int64_t bytes;
  int argument;  // -1: allocated here
  int device;
  Storage *previous, *next;  // all that live, for the guard check
};

struct TensorImpl {
  int64_t references;
  Storage* storage;
  char* data;
  int dtype;  // c10::ScalarType
  int ndim;
  int64_t numel;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims];
};

struct Launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  void* stream = nullptr;
};

// Order in which the n threads of a block (or blocks of a grid) run: start,
// start + step, ... modulo n. Step and n have no common factor.
struct Order {
  unsigned start, step;
};

// ---- runtime/*.cc, linked into every candidate
extern "C" {
// Ends the call with this text (or the running kernel, when in one).
[[noreturn]] DICE_HIDDEN void dice_fail(const char* format, ...)
    __attribute__((format(printf, 1, 2)));
DICE_HIDDEN Storage* dice_new_storage(int64_t bytes, int device, Fill fill);
DICE_HIDDEN void dice_free_storage(Storage* storage);
DICE_HIDDEN TensorImpl* dice_new_impl();
DICE_HIDDEN void dice_free_impl(TensorImpl* impl);
DICE_HIDDEN void dice_copy_strided(const TensorImpl* to, const TensorImpl* from);
DICE_HIDDEN void dice_fill(const TensorImpl* t, double value);
DICE_HIDDEN double dice_item(const TensorImpl* t);

// False: the launch is refused, and the error waits in cudaGetLastError.
DICE_HIDDEN bool dice_begin_launch(const Launch& launch, const void* kernel);
DICE_HIDDEN void dice_end_launch();
DICE_HIDDEN Order dice_order(unsigned n);
// Runs the block's threads on fibers: `loop(self)` calls dice_next_thread until
// it returns false, and runs the kernel after each true.
DICE_HIDDEN void dice_run_block(void (*loop)(void*), void* self);
DICE_HIDDEN bool dice_next_thread();
DICE_HIDDEN void dice_check_pointer(const void* pointer);
}

// Aligned like the device's, sized for the largest opt-in of any GPU.
extern DICE_HIDDEN unsigned char dynamic_shared[232448];

}  // namespace dice_emulate

#endif  // DICE_EMULATE_ABI_H_
