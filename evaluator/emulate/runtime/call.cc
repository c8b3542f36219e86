// The border to facade.py: arguments in, results out as words and DLPack.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>

// After the standard library: CUDA's qualifiers are macros.
#include "dice_emulate/entry.h"
#include "dice_emulate/torch_names.h"
#include "runtime.h"

// Which of dice_modules this file is. The marker lets the compiler find the
// word in the file; copies of one shared object differ only here.
extern "C" {
DICE_EXPORT volatile char dice_member[16];
volatile char dice_member[16] = "dice-member:";
constexpr int kResultWords = 1 << 16;
DICE_EXPORT int64_t dice_results[];
int64_t dice_results[kResultWords];
}

namespace dice_emulate {
namespace {

int result_words = 0;

// The stable part of dlpack.h (version 0, as torch still reads).
struct DLTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

void SetType(int dtype, DLTensor* t) {
  const auto type = c10::ScalarType(dtype);
  t->bits = uint8_t(8 * c10::elementSize(type));
  t->lanes = 1;
  t->code = type == c10::ScalarType::Bool       ? 6
            : type == c10::ScalarType::BFloat16 ? 4
            : c10::isFloatingType(type)         ? 2
            : type == c10::ScalarType::Byte     ? 1
                                                : 0;
}

// Python's tensor holds a reference to ours until it dies.
Managed* Export(TensorImpl* impl) {
  ++impl->references;
  auto* m = new Managed{};
  m->tensor.data = impl->data;
  m->tensor.device_type = 1;  // the host's memory
  m->tensor.ndim = impl->ndim;
  SetType(impl->dtype, &m->tensor);
  m->tensor.shape = impl->sizes;
  m->tensor.strides = impl->strides;
  m->context = impl;
  m->deleter = [](Managed* self) {
    auto* t = static_cast<TensorImpl*>(self->context);
    if (--t->references == 0) dice_free_impl(t);
    delete self;
  };
  return m;
}

int PutError(int kind, const char* text) {
  result_words = 0;
  dice_put_string(text, int64_t(std::strlen(text)));
  return kind;
}

}  // namespace

extern "C" {

void dice_fail(const char* format, ...) {
  Failure f;
  va_list args;
  va_start(args, format);
  std::vsnprintf(f.text, sizeof(f.text), format, args);
  va_end(args);
  throw f;
}

void dice_expect(bool ok, int argument, const char* wanted) {
  if (ok) return;
  Failure f;
  f.kind = 2;
  if (argument < 0)
    std::snprintf(f.text, sizeof(f.text),
                  "incompatible function arguments: expected %s", wanted);
  else
    std::snprintf(f.text, sizeof(f.text),
                  "incompatible function arguments: argument %d must be %s",
                  argument, wanted);
  throw f;
}

TensorImpl* dice_argument_tensor(const int64_t* v, int index) {
  auto* data = reinterpret_cast<char*>(v[1]);
  Storage* storage = Borrow(data, index);
  storage->device = int(v[3]);
  return NewTensor(storage, data, int(v[2]), v + 5, v + 5 + v[4], int(v[4]));
}

void dice_put(int64_t word) {
  if (result_words == kResultWords) dice_fail("too many results");
  dice_results[result_words++] = word;
}

void dice_put_string(const char* text, int64_t bytes) {
  const int64_t words = (bytes + 7) / 8;
  if (result_words + 2 + words > kResultWords) dice_fail("too many results");
  dice_put(kString);
  dice_put(bytes);
  std::memcpy(dice_results + result_words, text, size_t(bytes));
  result_words += int(words);
}

void dice_put_tensor(TensorImpl* impl) {
  if (impl == nullptr) return dice_put(kNone);
  const Storage* s = impl->storage;
  dice_put(kTensor);
  dice_put(s->argument);
  dice_put(s->argument >= 0 ? 0 : reinterpret_cast<int64_t>(Export(impl)));
  dice_put((impl->data - s->data) /
           c10::elementSize(c10::ScalarType(impl->dtype)));
  dice_put(impl->ndim);
  for (int d = 0; d < impl->ndim; ++d) dice_put(impl->sizes[d]);
  for (int d = 0; d < impl->ndim; ++d) dice_put(impl->strides[d]);
}

int dice_call(void (*body)(const int64_t*), const int64_t* words) {
  result_words = 0;
  ResetLaunches();
  int kind = 0;
  try {
    body(words);
  } catch (const Failure& f) {
    kind = PutError(f.kind, f.text);
  } catch (const std::exception& e) {
    kind = PutError(1, e.what());
  } catch (...) {
    kind = PutError(1, "unknown exception");
  }
  // A write outside beats what the call itself says; an error that nobody asked
  // for would surface at torch's next launch.
  if (const char* broken = FindBrokenGuard(); broken != nullptr)
    return PutError(1, broken);
  if (const int error = dice_last_error(true); kind == 0 && error != 0) {
    char text[160];
    std::snprintf(text, sizeof(text), "CUDA error: %s",
                  dice_error_string(error));
    return PutError(1, text);
  }
  return kind;
}

}  // extern "C"

// The function that Python may call as `name`, or null.
DICE_EXPORT void* dice_find(const char* name) {
  const int member = dice_member[12];
  for (const Entry* e = dice_modules[member]; e->name != nullptr; ++e)
    if (std::strcmp(e->name, name) == 0)
      return reinterpret_cast<void*>(e->call);
  return nullptr;
}

// All their names, separated by spaces.
DICE_EXPORT const char* dice_names() {
  static char names[4096];
  size_t n = 0;
  for (const Entry* e = dice_modules[int(dice_member[12])]; e->name; ++e)
    if (n + std::strlen(e->name) + 2 < sizeof(names))
      n += size_t(std::snprintf(names + n, sizeof(names) - n, "%s ", e->name));
  return names;
}

}  // namespace dice_emulate
