// torch::Tensor of the facade: a counted handle to shape and memory. What a
// CUDA extension does with tensors around its kernels, and no operators: a
// candidate that computes with ATen is not what is judged here.
#ifndef DICE_EMULATE_TENSOR_H_
#define DICE_EMULATE_TENSOR_H_

#include "scalar_type.h"

namespace at {
class Tensor;
}

namespace dice_emulate {

// As torch prints it: "size(): dimension 3 out of range".
inline int64_t WrapDim(int64_t d, int64_t n) {
  if (d < -n || d >= (n ? n : 1))
    dice_fail("Dimension out of range (expected to be in range of [%ld, %ld], "
              "but got %ld)", long(-n), long(n - 1), long(d));
  return d < 0 ? d + n : d;
}

}  // namespace dice_emulate

namespace dice_emulate {
template <typename T, int n, typename I>
class Accessor;
template <typename T, int n, typename I>
Accessor<T, n, I> MakeAccessor(const at::Tensor& t);
}  // namespace dice_emulate

namespace at {
using namespace c10;

class Tensor {
 public:
  Tensor() {}
  Tensor(const Tensor& o) : impl_(o.impl_) { if (impl_) ++impl_->references; }
  Tensor(Tensor&& o) noexcept : impl_(o.impl_) { o.impl_ = nullptr; }
  Tensor& operator=(Tensor o) {
    auto* mine = impl_;
    impl_ = o.impl_, o.impl_ = mine;
    return *this;
  }
  ~Tensor() { if (impl_ && --impl_->references == 0) dice_emulate::dice_free_impl(impl_); }
  // Takes over one reference.
  static Tensor Adopt(dice_emulate::TensorImpl* impl) {
    Tensor t;
    t.impl_ = impl;
    return t;
  }
  dice_emulate::TensorImpl* impl() const { return Get(); }

  bool defined() const { return impl_; }
  int64_t dim() const { return Get()->ndim; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return Get()->numel; }
  int64_t size(int64_t d) const { return Get()->sizes[Wrap(d)]; }
  int64_t stride(int64_t d) const { return Get()->strides[Wrap(d)]; }
  IntArrayRef sizes() const { return {Get()->sizes, size_t(impl_->ndim)}; }
  IntArrayRef strides() const { return {Get()->strides, size_t(impl_->ndim)}; }
  ScalarType scalar_type() const { return ScalarType(Get()->dtype); }
  TypeMeta dtype() const { return scalar_type(); }
  int64_t element_size() const { return elementSize(scalar_type()); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return size_t(numel() * element_size()); }
  int64_t storage_offset() const {
    return (Get()->data - impl_->storage->data) / element_size();
  }
  bool is_cuda() const { return Get()->storage->device == dice_emulate::kCuda; }
  bool is_cpu() const { return !is_cuda(); }
  Device device() const {
    return is_cuda() ? Device(DeviceType::CUDA, 0) : Device(DeviceType::CPU);
  }
  int64_t get_device() const { return is_cuda() ? 0 : -1; }
  TensorOptions options() const {
    return TensorOptions(scalar_type()).device(device());
  }
  bool requires_grad() const { return false; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }
  bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const {
    int64_t expected = 1;
    for (int d = int(dim()) - 1; d >= 0; --d) {
      if (impl_->sizes[d] != 1 && impl_->strides[d] != expected)
        return impl_->numel == 0;
      expected *= impl_->sizes[d];
    }
    return true;
  }

  void* data_ptr() const { return Get()->data; }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <typename T>
  T* data_ptr() const {
    using E = __typeof__(RemoveConst(static_cast<T*>(nullptr)));
    constexpr ScalarType wanted = dice_emulate::kTypeOf<E>;
    static_assert(wanted != ScalarType::Undefined, "no tensor has this type");
    if (scalar_type() != wanted)
      dice_emulate::dice_fail("expected scalar type %s but found %s",
                              toString(wanted), toString(scalar_type()));
    return reinterpret_cast<T*>(impl_->data);
  }
  template <typename T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <typename T>
  const T* const_data_ptr() const { return data_ptr<T>(); }
  template <typename T>
  T* data() const { return data_ptr<T>(); }
  template <typename T>
  T item() const { return T(dice_emulate::dice_item(Get())); }

  // In torch_stl.h.
  template <typename T, size_t n>
  auto accessor() const { return Packed<T, n, int64_t>(); }
  template <typename T, size_t n, template <typename> class... P>
  auto packed_accessor32() const { return Packed<T, n, int32_t>(); }
  template <typename T, size_t n, template <typename> class... P>
  auto packed_accessor64() const { return Packed<T, n, int64_t>(); }

  // New shape on the same memory, or copies; see tensor_ops.h.
  Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const;
  Tensor clone() const;
  Tensor detach() const { return *this; }
  Tensor to(ScalarType type) const;
  Tensor to(Device device) const;
  Tensor to(TensorOptions options) const { return to(ScalarType(options.dtype())).to(options.device()); }
  Tensor to(Device device, ScalarType type) const { return to(type).to(device); }
  Tensor cuda() const { return to(Device(DeviceType::CUDA)); }
  Tensor cpu() const { return to(Device(DeviceType::CPU)); }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor type_as(const Tensor& o) const { return to(o.scalar_type()); }
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides) const;
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const;
  Tensor reshape_as(const Tensor& o) const { return reshape(o.sizes()); }
  Tensor view_as(const Tensor& o) const { return view(o.sizes()); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor permute(IntArrayRef dims) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor squeeze(int64_t d) const;
  Tensor squeeze() const;
  Tensor unsqueeze(int64_t d) const;
  Tensor select(int64_t d, int64_t index) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor narrow(int64_t d, int64_t start, int64_t length) const;
  const Tensor& copy_(const Tensor& from) const;
  const Tensor& fill_(double value) const {
    dice_emulate::dice_fill(Get(), value);
    return *this;
  }
  const Tensor& zero_() const { return fill_(0); }

 private:
  template <typename T, size_t n, typename I>
  auto Packed() const {
    return dice_emulate::MakeAccessor<T, int(n), I>(*this);
  }
  template <typename T>
  static T RemoveConst(T*);
  template <typename T>
  static T RemoveConst(const T*);
  dice_emulate::TensorImpl* Get() const {
    if (!impl_) dice_emulate::dice_fail("tensor does not have a device");
    return impl_;
  }
  int64_t Wrap(int64_t d) const { return dice_emulate::WrapDim(d, dim()); }

  dice_emulate::TensorImpl* impl_ = nullptr;
};

}  // namespace at

#endif  // DICE_EMULATE_TENSOR_H_
