// Making tensors, and views of them.
#ifndef DICE_EMULATE_TENSOR_OPS_H_
#define DICE_EMULATE_TENSOR_OPS_H_

#include "tensor.h"

namespace dice_emulate {

// Compiled once, in the runtime. Each returns one reference.
extern "C" {
DICE_HIDDEN TensorImpl* dice_make(const int64_t* sizes, size_t ndim, int dtype,
                                  int device, Fill fill);
DICE_HIDDEN TensorImpl* dice_make_like(const TensorImpl* like, int dtype,
                                       int device);
// A view with the same element type. `offset` counts elements.
DICE_HIDDEN TensorImpl* dice_view(TensorImpl* base, const int64_t* sizes,
                                  const int64_t* strides, size_t ndim,
                                  int64_t offset);
DICE_HIDDEN TensorImpl* dice_reshape(TensorImpl* base, const int64_t* sizes,
                                     size_t ndim, bool may_copy);
DICE_HIDDEN TensorImpl* dice_convert(TensorImpl* from, int dtype, int device);
DICE_HIDDEN TensorImpl* dice_permute(TensorImpl* base, const int64_t* dims,
                                     size_t ndim);
DICE_HIDDEN TensorImpl* dice_expand(TensorImpl* base, const int64_t* sizes,
                                    size_t ndim);
DICE_HIDDEN TensorImpl* dice_narrow(TensorImpl* base, int64_t dim,
                                    int64_t start, int64_t length, bool drop);
DICE_HIDDEN TensorImpl* dice_squeeze(TensorImpl* base, int64_t dim, bool all);
DICE_HIDDEN TensorImpl* dice_unsqueeze(TensorImpl* base, int64_t dim);
DICE_HIDDEN TensorImpl* dice_flatten(TensorImpl* base, int64_t from,
                                     int64_t to);
DICE_HIDDEN void dice_copy(const TensorImpl* to, const TensorImpl* from);
}

inline at::Tensor Make(c10::IntArrayRef sizes, const c10::TensorOptions& o,
                       Fill fill) {
  return at::Tensor::Adopt(dice_make(sizes.data(), sizes.size(),
                                     int(c10::ScalarType(o.dtype())),
                                     o.device().is_cuda(), fill));
}

}  // namespace dice_emulate

namespace at {

inline Tensor Tensor::contiguous(MemoryFormat) const {
  return is_contiguous() ? *this : clone();
}
inline Tensor Tensor::clone() const {
  return Adopt(dice_emulate::dice_convert(Get(), Get()->dtype, -1));
}
inline Tensor Tensor::to(ScalarType type) const {
  if (type == scalar_type()) return *this;
  return Adopt(dice_emulate::dice_convert(Get(), int(type), -1));
}
inline Tensor Tensor::to(Device d) const {
  if (d == device()) return *this;
  return Adopt(dice_emulate::dice_convert(Get(), Get()->dtype, d.is_cuda()));
}
inline Tensor Tensor::as_strided(IntArrayRef s, IntArrayRef strides) const {
  return Adopt(dice_emulate::dice_view(Get(), s.data(), strides.data(), s.size(), 0));
}
inline Tensor Tensor::view(IntArrayRef s) const {
  return Adopt(dice_emulate::dice_reshape(Get(), s.data(), s.size(), false));
}
inline Tensor Tensor::reshape(IntArrayRef s) const {
  return Adopt(dice_emulate::dice_reshape(Get(), s.data(), s.size(), true));
}
inline Tensor Tensor::flatten(int64_t from, int64_t to) const {
  return Adopt(dice_emulate::dice_flatten(Get(), from, to));
}
inline Tensor Tensor::expand(IntArrayRef s) const {
  return Adopt(dice_emulate::dice_expand(Get(), s.data(), s.size()));
}
inline Tensor Tensor::permute(IntArrayRef dims) const {
  return Adopt(dice_emulate::dice_permute(Get(), dims.data(), dims.size()));
}
inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
  int64_t dims[dice_emulate::kMaxDims];
  for (int d = 0; d < dim(); ++d) dims[d] = d;
  a = Wrap(a), b = Wrap(b);
  dims[a] = b, dims[b] = a;
  return permute({dims, size_t(dim())});
}
inline Tensor Tensor::squeeze(int64_t d) const {
  return Adopt(dice_emulate::dice_squeeze(Get(), d, false));
}
inline Tensor Tensor::squeeze() const {
  return Adopt(dice_emulate::dice_squeeze(Get(), 0, true));
}
inline Tensor Tensor::unsqueeze(int64_t d) const {
  return Adopt(dice_emulate::dice_unsqueeze(Get(), d));
}
inline Tensor Tensor::select(int64_t d, int64_t i) const {
  return Adopt(dice_emulate::dice_narrow(Get(), d, i, 1, true));
}
inline Tensor Tensor::narrow(int64_t d, int64_t start, int64_t n) const {
  return Adopt(dice_emulate::dice_narrow(Get(), d, start, n, false));
}
inline const Tensor& Tensor::copy_(const Tensor& from) const {
  dice_emulate::dice_copy(Get(), from.impl());
  return *this;
}

inline Tensor empty(IntArrayRef sizes, const TensorOptions& o = {}) {
  return dice_emulate::Make(sizes, o, dice_emulate::kPoison);
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& o = {}) {
  return dice_emulate::Make(sizes, o, dice_emulate::kZero);
}
inline Tensor full(IntArrayRef sizes, double v, const TensorOptions& o = {}) {
  auto t = empty(sizes, o);
  t.fill_(v);
  return t;
}
inline Tensor ones(IntArrayRef sizes, const TensorOptions& o = {}) {
  return full(sizes, 1, o);
}
// Keeps the strides of a dense tensor, as torch does.
inline Tensor empty_like(const Tensor& t, const TensorOptions& o) {
  return Tensor::Adopt(dice_emulate::dice_make_like(
      t.impl(), int(ScalarType(o.dtype())), o.device().is_cuda()));
}
inline Tensor empty_like(const Tensor& t) { return empty_like(t, t.options()); }
#define DICE_LIKE_(name, value)                                          \
  inline Tensor name(const Tensor& t, const TensorOptions& o) {          \
    return empty_like(t, o).fill_(value);                                \
  }                                                                      \
  inline Tensor name(const Tensor& t) { return name(t, t.options()); }
DICE_LIKE_(zeros_like, 0)
DICE_LIKE_(ones_like, 1)
#undef DICE_LIKE_
inline Tensor full_like(const Tensor& t, double v) {
  return empty_like(t).fill_(v);
}
}  // namespace at

#endif  // DICE_EMULATE_TENSOR_OPS_H_
