// Shared by the files of the runtime, which is compiled once and linked into
// every candidate. One thread at a time calls into a candidate.
#ifndef DICE_EMULATE_RUNTIME_H_
#define DICE_EMULATE_RUNTIME_H_

#include "dice_emulate/tensor_ops.h"

namespace dice_emulate {

// What dice_fail throws. `kind` is the return value of dice_call.
struct Failure {
  int kind = 1;
  char text[1000];
};

// ---- memory.cc
// Names the first allocation whose guard zones were written to, and mends it;
// null when all are whole.
const char* FindBrokenGuard();
// Borrows an argument's memory for the running call.
Storage* Borrow(char* data, int argument);
TensorImpl* NewTensor(Storage* storage, char* data, int dtype,
                      const int64_t* sizes, const int64_t* strides, int ndim);

// ---- launch.cc
// Forgets what the previous call left: the last error, a broken launch.
void ResetLaunches();
void SetLastError(int error);
// True while a kernel runs (on a fiber or not).
bool InKernel();

}  // namespace dice_emulate

#endif  // DICE_EMULATE_RUNTIME_H_
