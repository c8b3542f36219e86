// Memory of tensors: guard zones, poison, and a small cache, so that the timed
// steady state costs no page faults (as with a device's caching allocator).
#include <cstdio>
#include <cstdlib>
#include <cstring>

// After the standard library: CUDA's qualifiers are macros.
#include "runtime.h"

namespace dice_emulate {
namespace {

constexpr int64_t kGuard = 256;  // bytes on each side
constexpr unsigned char kGuardByte = 0xa5;
constexpr unsigned char kPoisonByte = 0xff;  // NaN in every floating type
constexpr int64_t kCacheLimit = int64_t{256} << 20;

struct Block {
  char* base;
  int64_t bytes;  // of the data, without guards
};
Block cache[32];
int cached = 0;
int64_t cached_bytes = 0;
Storage live = {1, nullptr, 0, -1, kCpu, &live, &live};  // list head
Storage* spare_storages = nullptr;
TensorImpl* spare_impls = nullptr;
char broken_text[160];
bool broken = false;

char* Allocate(int64_t bytes) {
  for (int i = 0; i < cached; ++i) {
    if (cache[i].bytes != bytes) continue;
    char* base = cache[i].base;
    cached_bytes -= bytes;
    cache[i] = cache[--cached];
    return base;
  }
  const size_t total = (size_t(bytes) + 2 * kGuard + 255) & ~size_t{255};
  char* base = static_cast<char*>(std::aligned_alloc(256, total));
  if (base == nullptr)
    dice_fail("CUDA out of memory. Tried to allocate %ld bytes", long(bytes));
  std::memset(base, kGuardByte, kGuard);
  std::memset(base + kGuard + bytes, kGuardByte, kGuard);
  return base;
}

void Release(char* base, int64_t bytes) {
  if (cached == 32 || cached_bytes + bytes > kCacheLimit) {
    std::free(base);
    return;
  }
  cache[cached++] = {base, bytes};
  cached_bytes += bytes;
}

bool Whole(const char* zone) {
  uint64_t words[kGuard / 8], difference = 0;
  std::memcpy(words, zone, kGuard);
  for (uint64_t w : words) difference |= w ^ 0xa5a5a5a5a5a5a5a5ull;
  return difference == 0;
}

void CheckGuards(const Storage* s) {
  if (s->argument >= 0) return;
  char* base = s->data - kGuard;
  const bool before = Whole(base), after = Whole(s->data + s->bytes);
  if (before && after) return;
  if (!broken)
    std::snprintf(broken_text, sizeof(broken_text),
                  "CUDA error: an illegal memory access was encountered "
                  "(write %s an allocation of %ld bytes)",
                  before ? "past the end of" : "before", long(s->bytes));
  broken = true;
  std::memset(base, kGuardByte, kGuard);
  std::memset(s->data + s->bytes, kGuardByte, kGuard);
}

Storage* Link(char* data, int64_t bytes, int argument, int device) {
  Storage* s = spare_storages;
  if (s != nullptr)
    spare_storages = s->next;
  else
    s = new Storage;
  *s = {0, data, bytes, argument, device, &live, live.next};
  live.next->previous = s;
  live.next = s;
  return s;
}

}  // namespace

const char* FindBrokenGuard() {
  for (Storage* s = live.next; s != &live; s = s->next) CheckGuards(s);
  if (!broken) return nullptr;
  broken = false;
  return broken_text;
}

Storage* Borrow(char* data, int argument) {
  return Link(data, 0, argument, kCuda);
}

TensorImpl* NewTensor(Storage* storage, char* data, int dtype,
                      const int64_t* sizes, const int64_t* strides, int ndim) {
  TensorImpl* t = dice_new_impl();
  ++storage->references;
  t->storage = storage;
  t->data = data;
  t->dtype = dtype;
  t->ndim = ndim;
  t->numel = 1;
  for (int d = 0; d < ndim; ++d) {
    t->sizes[d] = sizes[d];
    t->numel *= sizes[d];
  }
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    t->strides[d] = strides ? strides[d] : stride;
    stride *= sizes[d] ? sizes[d] : 1;
  }
  return t;
}

extern "C" {

Storage* dice_new_storage(int64_t bytes, int device, Fill fill) {
  char* base = Allocate(bytes);
  std::memset(base + kGuard, fill == kZero ? 0 : kPoisonByte, size_t(bytes));
  return Link(base + kGuard, bytes, -1, device);
}

void dice_free_storage(Storage* s) {
  CheckGuards(s);
  s->previous->next = s->next;
  s->next->previous = s->previous;
  if (s->argument < 0) Release(s->data - kGuard, s->bytes);
  s->next = spare_storages;
  spare_storages = s;
}

TensorImpl* dice_new_impl() {
  TensorImpl* t = spare_impls;
  if (t != nullptr)
    spare_impls = reinterpret_cast<TensorImpl*>(t->storage);
  else
    t = new TensorImpl;
  t->references = 1;
  return t;
}

void dice_free_impl(TensorImpl* t) {
  if (--t->storage->references == 0) dice_free_storage(t->storage);
  t->storage = reinterpret_cast<Storage*>(spare_impls);
  spare_impls = t;
}

// Pointers into memory of the host, passed to a kernel, are an error there.
void dice_check_pointer(const void* pointer) {
  const char* p = static_cast<const char*>(pointer);
  for (const Storage* s = live.next; s != &live; s = s->next) {
    if (s->device == kCpu && p >= s->data && p < s->data + s->bytes)
      dice_fail(
          "CUDA error: an illegal memory access was encountered (a CPU "
          "tensor was passed to a kernel)");
  }
}

}  // extern "C"
}  // namespace dice_emulate
