// Facade names that need the standard library: accessors, printing, lists.
#ifndef DICE_EMULATE_TORCH_STL_H_
#define DICE_EMULATE_TORCH_STL_H_

#include "stl.h"
#include "torch_names.h"

namespace dice_emulate {
// t.accessor<float, 2>()[i][j], with sizes and strides by value.
template <typename T, int n, typename I>
class Accessor {
 public:
  Accessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (int d = 0; d < n; ++d) sizes_[d] = I(sizes[d]), strides_[d] = I(strides[d]);
  }
  template <typename J>
  Accessor(T* data, const Accessor<T, n + 1, J>& outer) : data_(data) {
    for (int d = 0; d < n; ++d)
      sizes_[d] = outer.size(d + 1), strides_[d] = outer.stride(d + 1);
  }
  decltype(auto) operator[](I i) const {
    if constexpr (n == 1)
      return (data_[i * strides_[0]]);
    else
      return Accessor<T, n - 1, I>(data_ + i * strides_[0], *this);
  }
  I size(int d) const { return sizes_[d]; }
  I stride(int d) const { return strides_[d]; }
  T* data() const { return data_; }

 private:
  T* data_;
  I sizes_[n], strides_[n];
};
template <typename T, int n, typename I>
Accessor<T, n, I> MakeAccessor(const at::Tensor& t) {
  if (t.dim() != n)
    dice_fail("TensorAccessor expected %d dims but tensor has %ld dims", n,
              long(t.dim()));
  return {t.data_ptr<T>(), t.sizes().data(), t.strides().data()};
}
}  // namespace dice_emulate

namespace at {
template <typename T>
struct RestrictPtrTraits {};
template <typename T>
struct DefaultPtrTraits {};
template <typename T, size_t n, template <typename> class P = DefaultPtrTraits,
          typename I = int64_t>
using GenericPackedTensorAccessor = dice_emulate::Accessor<T, int(n), I>;
template <typename T, size_t n, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = dice_emulate::Accessor<T, int(n), int32_t>;
template <typename T, size_t n, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = dice_emulate::Accessor<T, int(n), int64_t>;
using TensorList = const std::vector<Tensor>&;
inline std::ostream& operator<<(std::ostream& out, const IntArrayRef& a) {
  out << '[';
  for (size_t i = 0; i < a.size(); ++i) out << (i ? ", " : "") << a[i];
  return out << ']';
}
inline std::ostream& operator<<(std::ostream& out, ScalarType t) {
  return out << toString(t);
}
inline std::ostream& operator<<(std::ostream& out, TypeMeta t) {
  return out << t.name();
}
inline std::ostream& operator<<(std::ostream& out, Device d) {
  return out << d.str();
}
template <typename T>
using optional = std::optional<T>;
}  // namespace at
namespace c10 {
using at::operator<<;
template <typename T>
using optional = std::optional<T>;
using std::nullopt;
using std::make_optional;
}  // namespace c10
namespace torch {
using std::nullopt;
template <typename T, size_t n, template <typename> class P = at::DefaultPtrTraits>
using PackedTensorAccessor32 = at::PackedTensorAccessor32<T, n, P>;
template <typename T, size_t n, template <typename> class P = at::DefaultPtrTraits>
using PackedTensorAccessor64 = at::PackedTensorAccessor64<T, n, P>;
using at::RestrictPtrTraits;
using at::DefaultPtrTraits;
}  // namespace torch

#endif  // DICE_EMULATE_TORCH_STL_H_
