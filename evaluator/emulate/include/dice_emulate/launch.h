// A launch as loops over a directly called kernel. The splitter rewrites
//   kernel<<<grid, block, shared, stream>>>(args)
// into Run<waits>([&](auto... a) { kernel(a...); }, MakeLaunch(grid, block,
// shared, stream), args). `waits` is false only when the kernel can reach no barrier or
// warp-wide function: then its threads simply run one after the other.
#ifndef DICE_EMULATE_LAUNCH_H_
#define DICE_EMULATE_LAUNCH_H_

#include "abi.h"

namespace dice_emulate {

inline Launch MakeLaunch(dim3 grid, dim3 block, size_t shared_bytes = 0,
                         void* stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

inline void SetThread(unsigned t) {
  if (blockDim.y == 1 && blockDim.z == 1) {
    threadIdx.x = t;
  } else {
    const unsigned row = t / blockDim.x;
    threadIdx.x = t - row * blockDim.x;
    threadIdx.z = row / blockDim.y;
    threadIdx.y = row - threadIdx.z * blockDim.y;
  }
}

// Calls `block()` once per block of the grid, with blockIdx set.
template <typename F>
inline __attribute__((always_inline)) void ForEachBlock(const F& block) {
  const unsigned plane = gridDim.x * gridDim.y;
  for (unsigned z = 0; z < gridDim.z; ++z) {
    blockIdx.z = z;
    const Order order = dice_order(plane);
    for (unsigned i = 0, b = order.start; i < plane; ++i) {
      const unsigned row = gridDim.y == 1 ? 0 : b / gridDim.x;
      blockIdx.x = b - row * gridDim.x;
      blockIdx.y = row;
      block();
      b += order.step;
      if (b >= plane) b -= plane;
    }
  }
}

template <typename T>
inline void CheckArgument(const T&) {}
template <typename T>
inline void CheckArgument(T* const& pointer) {
  dice_check_pointer(pointer);
}

template <bool waits, typename Kernel, typename... Args>
inline void Run(const Kernel& kernel, const Launch& launch, Args... args) {
  (CheckArgument(args), ...);
  if (!dice_begin_launch(launch, nullptr)) return;
  if constexpr (waits) {
    auto loop = [&] {
      while (dice_next_thread()) kernel(args...);
    };
    ForEachBlock([&] {
      dice_run_block([](void* self) { (*static_cast<decltype(loop)*>(self))(); },
                     &loop);
    });
  } else {
    const unsigned n = blockDim.x * blockDim.y * blockDim.z;
    const Order order = dice_order(n);
    threadIdx = {0, 0, 0};
    ForEachBlock([&] {
      for (unsigned i = 0, t = order.start; i < n; ++i) {
        SetThread(t);
        kernel(args...);
        t += order.step;
        if (t >= n) t -= n;
      }
    });
  }
  dice_end_launch();
}

}  // namespace dice_emulate

#endif  // DICE_EMULATE_LAUNCH_H_
