// Launches: their limits, and the threads of a block as stackful fibers. A
// fiber runs one thread after the other until one has to wait; so a block whose
// threads do not wait costs no switch.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

// After the standard library: CUDA's qualifiers are macros.
#include "dice_emulate/fiber.h"
#include "dice_emulate/launch.h"
#include "dice_emulate/torch_names.h"
#include "runtime.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;
DICE_EXPORT int64_t dice_launch_count;
int64_t dice_launch_count = 0;

namespace dice_emulate {

alignas(1024) unsigned char dynamic_shared[232448];

namespace {

constexpr int kMaxThreads = 1024;
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kGuardBytes = 4096;
constexpr int kRing = 2 * kMaxThreads;

enum class State : uint8_t { kNew, kReady, kAtBlock, kAtWarp, kDone };

// What a lane brings to a warp-wide function, and what it gets back.
struct Lane {
  unsigned mask;
  bool exchange;  // else a ballot
  int from;
  uint64_t value, result;
};

struct Thread {
  uint3 index;
  int fiber;
  Lane lane;
};

int last_error = 0;
bool in_kernel = false;
uint64_t order_seed = 0;
bool order_read = false;
size_t dynamic_limit = 49152;

// ---- the running block
int count;            // threads of the block
int started;          // threads begun, in launch order
int living;           // threads not done
int at_block;         // waiting at the block's barrier
int sum_block;        // true predicates there
int result_block[3];  // of the last barrier: count, and, or
unsigned next_thread;
Order order;
State states[kMaxThreads];
Thread threads[kMaxThreads];
int current = -1;  // the running thread, -1 between threads
void (*block_loop)(void*);
void* block_self;

// ---- fibers
char* stacks = nullptr;
void* saved[kMaxThreads];  // stack pointer of each suspended fiber
int fibers_ready = 0;      // stacks whose guard page is set
int free_fibers[kMaxThreads], free_count = 0;
void* scheduler;  // its stack pointer while a fiber runs
int running_fiber;
int ready[kRing], ready_head, ready_tail;  // ring of threads
bool failed;
Failure failure;

// Saves the callee-saved registers, stores the stack pointer in *from and
// continues at `to`.
asm(R"(
.text
.type dice_switch, @function
dice_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dice_switch, .-dice_switch
)");
extern "C" void dice_switch(void** from, void* to);

// The exception state of a thread belongs to a fiber; kernels throw only to
// end themselves, which is caught here.
void FiberMain() {
  for (;;) {
    try {
      block_loop(block_self);
    } catch (const Failure& f) {
      failed = true;
      failure = f;
    } catch (...) {
      failed = true;
      std::snprintf(failure.text, sizeof(failure.text),
                    "CUDA error: unspecified launch failure");
    }
    free_fibers[free_count++] = running_fiber;
    dice_switch(&saved[running_fiber], scheduler);
  }
}

int TakeFiber() {
  if (free_count > 0) return free_fibers[--free_count];
  if (stacks == nullptr) {
    void* p = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) dice_fail("no memory for the emulated threads");
    stacks = static_cast<char*>(p);
  }
  const int f = fibers_ready++;
  char* base = stacks + size_t(f) * kStackBytes;
  mprotect(base, kGuardBytes, PROT_NONE);
  // Six registers and the return address; FiberMain is entered with the stack
  // aligned as after a call.
  void** top = reinterpret_cast<void**>(base + kStackBytes) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(&FiberMain);
  top -= 6;
  std::memset(top, 0, 6 * sizeof(void*));
  saved[f] = top;
  return f;
}

void MakeReady(int t) {
  states[t] = State::kReady;
  ready[ready_tail] = t;
  ready_tail = (ready_tail + 1) % kRing;
}

// Lets the running thread wait; returns when it is made ready again.
void Suspend(State why) {
  const int me = current;
  states[me] = why;
  threads[me].index = threadIdx;
  threads[me].fiber = running_fiber;
  current = -1;
  dice_switch(&saved[running_fiber], scheduler);
  current = me;
  threadIdx = threads[me].index;
}

void ReleaseBlock() {
  if (at_block == 0 || at_block < living) return;
  result_block[0] = sum_block;
  result_block[1] = sum_block == at_block;
  result_block[2] = sum_block != 0;
  at_block = sum_block = 0;
  for (int t = 0; t < count; ++t)
    if (states[t] == State::kAtBlock) MakeReady(t);
}

// Ends the warp-wide function of `mask` in t's warp when all its living lanes
// have come.
bool ReleaseWarp(int t, unsigned mask) {
  const int first = t & ~31;
  unsigned predicates = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const int other = first + lane;
    if (!(mask >> lane & 1) || other >= count) continue;
    if (states[other] == State::kDone) continue;
    if (states[other] != State::kAtWarp || threads[other].lane.mask != mask)
      return false;
    if (threads[other].lane.value) predicates |= 1u << lane;
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int other = first + lane;
    if (other >= count || states[other] != State::kAtWarp ||
        threads[other].lane.mask != mask)
      continue;
    Lane& mine = threads[other].lane;
    const int source = first + (mine.from & 31);
    mine.result = !mine.exchange ? predicates
                  : source < count && (mask >> (mine.from & 31) & 1)
                      ? threads[source].lane.value
                      : mine.value;
    MakeReady(other);
  }
  return true;
}

uint64_t AtWarp(unsigned mask, bool exchange, uint64_t value, int from) {
  if (!in_kernel) dice_fail("a warp-wide function outside a kernel");
  const int me = current;
  const int first = me & ~31;
  if (count - first < 32) mask &= (1u << (count - first)) - 1;
  if (!(mask >> (me & 31) & 1))
    dice_fail(
        "CUDA error: a lane called a warp-wide function whose mask does "
        "not name it");
  threads[me].lane = {mask, exchange, from, value, 0};
  states[me] = State::kAtWarp;
  threads[me].index = threadIdx;
  ReleaseWarp(me, mask);
  if (states[me] == State::kReady &&
      ready_head == (ready_tail + kRing - 1) % kRing) {
    ready_tail = ready_head;  // alone: no switch
  } else {
    Suspend(states[me]);
  }
  return threads[me].lane.result;
}

void FinishThread() {
  if (current < 0) return;
  states[current] = State::kDone;
  --living;
  const int t = current;
  current = -1;
  ReleaseBlock();
  for (int lane = 0; lane < 32; ++lane) {
    const int other = (t & ~31) + lane;
    if (other < count && states[other] == State::kAtWarp)
      ReleaseWarp(other, threads[other].lane.mask);
  }
}

void Refuse(int error) { last_error = error; }

}  // namespace

void ResetLaunches() {
  last_error = 0;
  in_kernel = false;
}
void SetLastError(int error) { last_error = error; }
bool InKernel() { return in_kernel; }

extern "C" {

bool dice_begin_launch(const Launch& l, const void*) {
  const uint64_t n = uint64_t(l.block.x) * l.block.y * l.block.z;
  if (in_kernel) dice_fail("launches from a kernel are not emulated");
  if (n == 0 || n > kMaxThreads || l.block.z > 64 || l.grid.x == 0 ||
      l.grid.y == 0 || l.grid.z == 0 || l.grid.x > 0x7fffffffu ||
      l.grid.y > 65535 || l.grid.z > 65535) {
    Refuse(cudaErrorInvalidConfiguration);
    return false;
  }
  if (l.shared_bytes > dynamic_limit) {
    Refuse(cudaErrorInvalidValue);
    return false;
  }
  ++dice_launch_count;
  gridDim = l.grid;
  blockDim = l.block;
  in_kernel = true;
  std::memset(dynamic_shared, 0xff, l.shared_bytes);
  return true;
}

void dice_end_launch() { in_kernel = false; }

Order dice_order(unsigned n) {
  if (!order_read) {
    const char* text = std::getenv("DICE_EMULATE_ORDER_SEED");
    order_seed = text ? std::strtoull(text, nullptr, 10) : 0;
    order_read = true;
  }
  if (order_seed == 0 || n < 2) return {0, 1};
  uint64_t h = order_seed * 0x9e3779b97f4a7c15ull + n;
  h ^= h >> 31, h *= 0xbf58476d1ce4e5b9ull, h ^= h >> 29;
  unsigned step = unsigned(h >> 32) % n;
  auto common = [n](unsigned a) {
    for (unsigned b = n; b != 0;) {
      const unsigned r = a % b;
      a = b, b = r;
    }
    return a;
  };
  while (step == 0 || common(step) != 1) step = step + 1 >= n ? 1 : step + 1;
  return {unsigned(h) % n, step};
}

bool dice_next_thread() {
  FinishThread();
  if (started == count || failed) return false;
  ++started;
  current = int(next_thread);
  SetThread(next_thread);
  next_thread += order.step;
  if (next_thread >= unsigned(count)) next_thread -= unsigned(count);
  return true;
}

void dice_run_block(void (*loop)(void*), void* self) {
  count = living = int(blockDim.x * blockDim.y * blockDim.z);
  started = at_block = sum_block = ready_head = ready_tail = 0;
  order = dice_order(unsigned(count));
  next_thread = order.start;
  threadIdx = {0, 0, 0};
  current = -1;
  failed = false;
  block_loop = loop;
  block_self = self;
  std::memset(states, 0, size_t(count));
  while (!failed && living > 0) {
    if (ready_head != ready_tail) {
      const int t = ready[ready_head];
      ready_head = (ready_head + 1) % kRing;
      running_fiber = threads[t].fiber;
    } else if (started < count) {
      running_fiber = TakeFiber();
    } else {
      std::snprintf(failure.text, sizeof(failure.text),
                    "CUDA error: the launch timed out (threads of block "
                    "(%u,%u,%u) wait for others that never come)",
                    blockIdx.x, blockIdx.y, blockIdx.z);
      failed = true;
      break;
    }
    dice_switch(&scheduler, saved[running_fiber]);
  }
  if (!failed) return;
  // Suspended fibers are abandoned: their stacks begin anew.
  fibers_ready = free_count = 0;
  in_kernel = false;
  throw failure;
}

int dice_block_barrier(int op, int predicate) {
  if (!in_kernel) dice_fail("__syncthreads outside a kernel");
  const int me = current;
  states[me] = State::kAtBlock;
  ++at_block;
  sum_block += predicate;
  threads[me].index = threadIdx;
  threads[me].fiber = running_fiber;
  ReleaseBlock();
  Suspend(states[me]);
  return result_block[op];
}

uint64_t dice_exchange(unsigned mask, uint64_t value, int from) {
  return AtWarp(mask, true, value, from);
}
unsigned dice_ballot(unsigned mask, bool predicate) {
  return unsigned(AtWarp(mask, false, predicate, 0));
}
unsigned dice_active_mask() {
  unsigned mask = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const int t = (current & ~31) + lane;
    if (t < count && states[t] != State::kDone) mask |= 1u << lane;
  }
  return mask;
}
int dice_lane() {
  return int(threadIdx.x +
             blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) &
         31;
}

int dice_last_error(bool clear) {
  const int error = last_error;
  if (clear) last_error = 0;
  return error;
}
const char* dice_error_string(int error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "unspecified launch failure";
  }
}

void dice_set_dynamic_limit(size_t bytes) {
  if (bytes <= sizeof(dynamic_shared)) dynamic_limit = bytes;
}

}  // extern "C"
}  // namespace dice_emulate
