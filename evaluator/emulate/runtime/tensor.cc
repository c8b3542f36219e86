// Views, copies and conversions of the facade's tensors.
#include <cmath>
#include <cstring>

// After the standard library: CUDA's qualifiers are macros.
#include "runtime.h"

namespace dice_emulate {
namespace {

using c10::ScalarType;

int64_t ElementSize(int dtype) { return c10::elementSize(ScalarType(dtype)); }

void CheckDims(size_t ndim) {
  if (ndim > kMaxDims)
    dice_fail("tensors of more than %d dimensions are not emulated", kMaxDims);
}

float FromBf16(uint16_t h) {
  return __builtin_bit_cast(float, uint32_t(h) << 16);
}
uint16_t ToBf16(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  if (f != f) return 0x7fff;
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

double Load(const char* p, int dtype) {
  auto as = [p](auto v) {
    std::memcpy(&v, p, sizeof(v));
    return v;
  };
  switch (ScalarType(dtype)) {
    case ScalarType::Byte:
      return as(uint8_t{});
    case ScalarType::Char:
      return as(int8_t{});
    case ScalarType::Short:
      return as(int16_t{});
    case ScalarType::Int:
      return as(int32_t{});
    case ScalarType::Long:
      return double(as(int64_t{}));
    case ScalarType::Half:
      return double(as(_Float16{}));
    case ScalarType::Float:
      return as(float{});
    case ScalarType::Bool:
      return as(uint8_t{}) != 0;
    case ScalarType::BFloat16:
      return FromBf16(as(uint16_t{}));
    default:
      return as(double{});
  }
}

void StoreAs(char* p, int dtype, double x) {
  auto as = [p](auto v) { std::memcpy(p, &v, sizeof(v)); };
  switch (ScalarType(dtype)) {
    case ScalarType::Byte:
      return as(uint8_t(int64_t(x)));
    case ScalarType::Char:
      return as(int8_t(x));
    case ScalarType::Short:
      return as(int16_t(x));
    case ScalarType::Int:
      return as(int32_t(x));
    case ScalarType::Long:
      return as(int64_t(x));
    case ScalarType::Half:
      return as(_Float16(x));
    case ScalarType::Float:
      return as(float(x));
    case ScalarType::Bool:
      return as(uint8_t(x != 0));
    case ScalarType::BFloat16:
      return as(ToBf16(float(x)));
    default:
      return as(x);
  }
}

// Calls f(offset in `a`, offset in `b`) for every element, offsets in elements.
template <typename F>
void ForEach(const TensorImpl* a, const TensorImpl* b, F f) {
  int64_t index[kMaxDims] = {}, at = 0, bt = 0;
  for (int64_t i = 0; i < a->numel; ++i) {
    f(at, bt);
    for (int d = a->ndim - 1; d >= 0; --d) {
      at += a->strides[d], bt += b->strides[d];
      if (++index[d] < a->sizes[d]) break;
      at -= a->strides[d] * a->sizes[d], bt -= b->strides[d] * a->sizes[d];
      index[d] = 0;
    }
  }
}

bool SameLayout(const TensorImpl* a, const TensorImpl* b) {
  int64_t expected = 1;
  for (int d = a->ndim - 1; d >= 0; --d) {
    if (a->sizes[d] != 1 &&
        (a->strides[d] != expected || b->strides[d] != expected))
      return false;
    expected *= a->sizes[d];
  }
  return true;
}

// Sizes with a -1 replaced so that they hold `numel` elements.
void InferSizes(const int64_t* sizes, size_t ndim, int64_t numel,
                int64_t* out) {
  CheckDims(ndim);
  int64_t known = 1;
  int inferred = -1;
  for (size_t d = 0; d < ndim; ++d) {
    out[d] = sizes[d];
    if (sizes[d] == -1)
      inferred = int(d);
    else
      known *= sizes[d];
  }
  if (inferred >= 0 && known != 0) out[inferred] = numel / known;
  if ((inferred >= 0 ? known * out[inferred] : known) != numel)
    dice_fail("shape is invalid for input of size %ld", long(numel));
}

// The strides that give `t` the new sizes without a copy.
bool ViewStrides(const TensorImpl* t, const int64_t* sizes, int ndim,
                 int64_t* strides) {
  int view = ndim - 1;
  int64_t chunk = t->ndim ? t->strides[t->ndim - 1] : 1;
  int64_t in_numel = 1, out_numel = 1;
  for (int d = t->ndim - 1; d >= 0; --d) {
    in_numel *= t->sizes[d];
    const bool ends = d == 0 || (t->sizes[d - 1] != 1 &&
                                 t->strides[d - 1] != in_numel * chunk);
    if (!ends) continue;
    while (view >= 0 && (out_numel < in_numel || sizes[view] == 1)) {
      strides[view] = out_numel * chunk;
      out_numel *= sizes[view--];
    }
    if (out_numel != in_numel) return false;
    if (d > 0) chunk = t->strides[d - 1], in_numel = out_numel = 1;
  }
  while (view >= 0) strides[view--] = 1;
  return true;
}

// Strides of `like` when it is dense and its elements do not overlap.
bool DenseStrides(const TensorImpl* like, int64_t* strides) {
  bool used[kMaxDims] = {};
  int64_t expected = 1;
  for (int i = 0; i < like->ndim; ++i) {
    int next = -1;
    for (int d = 0; d < like->ndim; ++d)
      if (!used[d] && (like->strides[d] == expected || like->sizes[d] == 1)) {
        next = d;
        if (like->sizes[d] != 1) break;
      }
    if (next < 0) return false;
    used[next] = true;
    strides[next] = like->strides[next];
    expected *= like->sizes[next];
  }
  return like->numel > 0;
}

}  // namespace

extern "C" {

TensorImpl* dice_make(const int64_t* sizes, size_t ndim, int dtype, int device,
                      Fill fill) {
  CheckDims(ndim);
  int64_t numel = 1;
  for (size_t d = 0; d < ndim; ++d) {
    if (sizes[d] < 0)
      dice_fail("Trying to create tensor with negative dimension %ld",
                long(sizes[d]));
    numel *= sizes[d];
  }
  Storage* s = dice_new_storage(numel * ElementSize(dtype), device, fill);
  return NewTensor(s, s->data, dtype, sizes, nullptr, int(ndim));
}

TensorImpl* dice_make_like(const TensorImpl* like, int dtype, int device) {
  TensorImpl* t =
      dice_make(like->sizes, size_t(like->ndim), dtype, device, kPoison);
  int64_t strides[kMaxDims];
  if (DenseStrides(like, strides))
    std::memcpy(t->strides, strides, sizeof(strides));
  return t;
}

TensorImpl* dice_view(TensorImpl* base, const int64_t* sizes,
                      const int64_t* strides, size_t ndim, int64_t offset) {
  CheckDims(ndim);
  return NewTensor(base->storage,
                   base->data + offset * ElementSize(base->dtype), base->dtype,
                   sizes, strides, int(ndim));
}

void dice_copy(const TensorImpl* to, const TensorImpl* from) {
  TensorImpl* wide = nullptr;
  if (from->ndim != to->ndim ||
      std::memcmp(from->sizes, to->sizes, size_t(to->ndim) * 8) != 0)
    from = wide =
        dice_expand(const_cast<TensorImpl*>(from), to->sizes, size_t(to->ndim));
  const int64_t n = ElementSize(to->dtype), m = ElementSize(from->dtype);
  if (to->dtype == from->dtype && SameLayout(to, from)) {
    std::memmove(to->data, from->data, size_t(to->numel * n));
  } else if (to->dtype == from->dtype) {
    ForEach(to, from, [&](int64_t a, int64_t b) {
      std::memcpy(to->data + a * n, from->data + b * n, size_t(n));
    });
  } else {
    ForEach(to, from, [&](int64_t a, int64_t b) {
      StoreAs(to->data + a * n, to->dtype,
              Load(from->data + b * m, from->dtype));
    });
  }
  if (wide != nullptr) dice_free_impl(wide);
}

TensorImpl* dice_convert(TensorImpl* from, int dtype, int device) {
  TensorImpl* t =
      dice_make(from->sizes, size_t(from->ndim), dtype,
                device < 0 ? from->storage->device : device, kPoison);
  dice_copy(t, from);
  return t;
}

void dice_fill(const TensorImpl* t, double value) {
  const int64_t n = ElementSize(t->dtype);
  char element[8];
  StoreAs(element, t->dtype, value);
  if (value == 0 && !std::signbit(value) && SameLayout(t, t)) {
    std::memset(t->data, 0, size_t(t->numel * n));
    return;
  }
  ForEach(t, t, [&](int64_t a, int64_t) {
    std::memcpy(t->data + a * n, element, size_t(n));
  });
}

double dice_item(const TensorImpl* t) {
  if (t->numel != 1)
    dice_fail("a Tensor with %ld elements cannot be converted to Scalar",
              long(t->numel));
  return Load(t->data, t->dtype);
}

TensorImpl* dice_reshape(TensorImpl* base, const int64_t* sizes, size_t ndim,
                         bool may_copy) {
  int64_t shape[kMaxDims], strides[kMaxDims];
  InferSizes(sizes, ndim, base->numel, shape);
  if (base->numel == 0 || ViewStrides(base, shape, int(ndim), strides))
    return dice_view(base, shape, base->numel ? strides : nullptr, ndim, 0);
  if (!may_copy)
    dice_fail(
        "view size is not compatible with input tensor's size and "
        "stride. Use .reshape(...) instead.");
  TensorImpl* copy = dice_convert(base, base->dtype, -1);
  for (int64_t d = int64_t(ndim) - 1, s = 1; d >= 0; s *= shape[d--])
    strides[d] = s;
  TensorImpl* view = dice_view(copy, shape, strides, ndim, 0);
  dice_free_impl(copy);
  return view;
}

TensorImpl* dice_permute(TensorImpl* t, const int64_t* dims, size_t ndim) {
  if (int(ndim) != t->ndim)
    dice_fail("permute: %zu dimensions for a tensor of %d", ndim, t->ndim);
  int64_t sizes[kMaxDims], strides[kMaxDims];
  unsigned seen = 0;
  for (size_t i = 0; i < ndim; ++i) {
    const int64_t d = WrapDim(dims[i], t->ndim);
    if (seen >> d & 1) dice_fail("permute: duplicate dims are not allowed.");
    seen |= 1u << d;
    sizes[i] = t->sizes[d], strides[i] = t->strides[d];
  }
  return dice_view(t, sizes, strides, ndim, 0);
}

TensorImpl* dice_expand(TensorImpl* t, const int64_t* wanted, size_t ndim) {
  CheckDims(ndim);
  const int lead = int(ndim) - t->ndim;
  int64_t sizes[kMaxDims], strides[kMaxDims];
  for (int d = 0; d < int(ndim); ++d) {
    const int64_t have = d < lead ? 1 : t->sizes[d - lead];
    sizes[d] = wanted[d] == -1 ? have : wanted[d];
    strides[d] = d < lead || have == 1 ? 0 : t->strides[d - lead];
    if (lead < 0 || (have != 1 && have != sizes[d]))
      dice_fail(
          "The expanded size of the tensor (%ld) must match the existing "
          "size (%ld) at non-singleton dimension %d.",
          long(sizes[d]), long(have), d);
  }
  return dice_view(t, sizes, strides, ndim, 0);
}

TensorImpl* dice_narrow(TensorImpl* t, int64_t dim, int64_t start,
                        int64_t length, bool drop) {
  const int64_t d = WrapDim(dim, t->ndim), n = t->ndim ? t->sizes[d] : 0;
  if (start < 0) start += n;
  if (start < 0 || length < 0 || start + length > n)
    dice_fail("index %ld is out of bounds for dimension %ld with size %ld",
              long(start), long(d), long(n));
  TensorImpl* view = dice_view(t, t->sizes, t->strides, size_t(t->ndim),
                               start * t->strides[d]);
  view->sizes[d] = length;
  view->numel = n ? t->numel / n * length : 0;
  if (!drop) return view;
  TensorImpl* dropped = dice_squeeze(view, d, false);
  dice_free_impl(view);
  return dropped;
}

TensorImpl* dice_squeeze(TensorImpl* t, int64_t dim, bool all) {
  int64_t sizes[kMaxDims], strides[kMaxDims];
  size_t n = 0;
  const int64_t wrapped = WrapDim(dim, t->ndim);
  for (int d = 0; d < t->ndim; ++d) {
    if ((all || d == wrapped) && t->sizes[d] == 1) continue;
    sizes[n] = t->sizes[d], strides[n++] = t->strides[d];
  }
  return dice_view(t, sizes, strides, n, 0);
}

TensorImpl* dice_unsqueeze(TensorImpl* t, int64_t dim) {
  int64_t sizes[kMaxDims + 1], strides[kMaxDims + 1];
  const int64_t at = WrapDim(dim, t->ndim + 1);
  for (int d = 0, n = 0; n <= t->ndim; ++n) {
    sizes[n] = n == at ? 1 : t->sizes[d];
    strides[n] = n == at ? 1 : t->strides[d];
    if (n != at) ++d;
  }
  return dice_view(t, sizes, strides, size_t(t->ndim) + 1, 0);
}

TensorImpl* dice_flatten(TensorImpl* t, int64_t from, int64_t to) {
  from = WrapDim(from, t->ndim), to = WrapDim(to, t->ndim);
  int64_t sizes[kMaxDims + 1];
  size_t n = 0;
  for (int d = 0; d < t->ndim; ++d) {
    if (d > from && d <= to)
      sizes[n - 1] *= t->sizes[d];
    else
      sizes[n++] = t->sizes[d];
  }
  if (t->ndim == 0) sizes[n++] = 1;
  return dice_reshape(t, sizes, n, true);
}

}  // extern "C"
}  // namespace dice_emulate
