// Element types, devices and options of the torch facade.
#ifndef DICE_EMULATE_SCALAR_TYPE_H_
#define DICE_EMULATE_SCALAR_TYPE_H_

#include <initializer_list>

#ifdef DICE_EMULATE_STL
#include "stl.h"
#endif

#include "abi.h"

namespace c10 {

// The values are torch's.
enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6,
  Double = 7, Bool = 11, BFloat16 = 15, Undefined = 20
};
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
enum class MemoryFormat { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
enum class Layout { Strided };

inline const char* toString(ScalarType t) {
  switch (t) {
    case ScalarType::Byte: return "Byte";
    case ScalarType::Char: return "Char";
    case ScalarType::Short: return "Short";
    case ScalarType::Int: return "Int";
    case ScalarType::Long: return "Long";
    case ScalarType::Half: return "Half";
    case ScalarType::Float: return "Float";
    case ScalarType::Double: return "Double";
    case ScalarType::Bool: return "Bool";
    case ScalarType::BFloat16: return "BFloat16";
    default: return "Undefined";
  }
}
inline int64_t elementSize(ScalarType t) {
  switch (t) {
    case ScalarType::Short: case ScalarType::Half: case ScalarType::BFloat16:
      return 2;
    case ScalarType::Int: case ScalarType::Float: return 4;
    case ScalarType::Long: case ScalarType::Double: return 8;
    default: return 1;
  }
}
inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::Float ||
         t == ScalarType::Double || t == ScalarType::BFloat16;
}
inline bool isIntegralType(ScalarType t, bool with_bool = false) {
  return int(t) <= 4 || (with_bool && t == ScalarType::Bool);
}

// What Tensor::dtype() returns; compares with a ScalarType.
class TypeMeta {
 public:
  constexpr TypeMeta(ScalarType t) : type_(t) {}
  constexpr operator ScalarType() const { return type_; }
  ScalarType toScalarType() const { return type_; }
  const char* name() const { return toString(type_); }
  int64_t itemsize() const { return elementSize(type_); }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }
  friend bool operator==(ScalarType a, TypeMeta b) { return a == b.type_; }

 private:
  ScalarType type_;
};

struct Device {
  constexpr Device(DeviceType t, int i = -1) : type_(t), index_(i) {}
  // "cuda", "cuda:0", "cpu"
  Device(const char* name) : type_(DeviceType::CPU), index_(-1) {
    if (name[0] == 'c' && name[1] == 'u') {
      type_ = DeviceType::CUDA;
      if (name[4] == ':') index_ = name[5] - '0';
    }
  }
  DeviceType type() const { return type_; }
  int index() const { return index_; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool has_index() const { return index_ >= 0; }
  const char* str() const { return is_cuda() ? "cuda:0" : "cpu"; }
  friend bool operator==(Device a, Device b) { return a.type_ == b.type_; }

 private:
  DeviceType type_;
  int index_;
};

struct TensorOptions {
  constexpr TensorOptions() {}
  constexpr TensorOptions(ScalarType t) : type_(t) {}
  constexpr TensorOptions(TypeMeta t) : type_(t) {}
  constexpr TensorOptions(Device d) : device_(d) {}
  constexpr TensorOptions(DeviceType d) : device_(d) {}
  TensorOptions dtype(ScalarType t) const { auto o = *this; o.type_ = t; return o; }
  TensorOptions dtype(TypeMeta t) const { return dtype(ScalarType(t)); }
  template <typename T>
  TensorOptions dtype() const;
  TensorOptions device(Device d) const { auto o = *this; o.device_ = d; return o; }
  TensorOptions device(DeviceType d, int) const { return device(Device(d)); }
  TensorOptions requires_grad(bool) const { return *this; }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
  TensorOptions pinned_memory(bool) const { return *this; }
  TypeMeta dtype() const { return type_; }
  Device device() const { return device_; }

 private:
  ScalarType type_ = ScalarType::Float;
  Device device_ = DeviceType::CPU;
};

struct Half;
struct BFloat16;

}  // namespace c10

namespace dice_emulate {
// The element type of a C++ type; Undefined for one that no tensor holds.
template <typename T>
constexpr c10::ScalarType kTypeOf = c10::ScalarType::Undefined;
#define DICE_TYPE_(T, name) \
  template <>               \
  inline constexpr c10::ScalarType kTypeOf<T> = c10::ScalarType::name;
DICE_TYPE_(uint8_t, Byte)
DICE_TYPE_(int8_t, Char)
DICE_TYPE_(int16_t, Short)
DICE_TYPE_(int32_t, Int)
DICE_TYPE_(int64_t, Long)
DICE_TYPE_(long long, Long)
DICE_TYPE_(float, Float)
DICE_TYPE_(double, Double)
DICE_TYPE_(bool, Bool)
DICE_TYPE_(c10::Half, Half)
DICE_TYPE_(c10::BFloat16, BFloat16)
#undef DICE_TYPE_
}  // namespace dice_emulate

template <typename T>
c10::TensorOptions c10::TensorOptions::dtype() const {
  return dtype(dice_emulate::kTypeOf<T>);
}

namespace c10 {
// Borrowed sizes or strides.
class IntArrayRef {
 public:
  constexpr IntArrayRef() {}
  constexpr IntArrayRef(const int64_t* data, size_t n) : data_(data), n_(n) {}
  constexpr IntArrayRef(const int64_t& one) : data_(&one), n_(1) {}
  constexpr IntArrayRef(const std::initializer_list<int64_t>& list)
      : data_(list.begin()), n_(list.size()) {}
  template <int n>
  constexpr IntArrayRef(const int64_t (&array)[n]) : data_(array), n_(n) {}
  // std::vector, std::array and their like.
  template <typename C, typename = decltype(static_cast<const int64_t*>(
                            static_cast<const C*>(nullptr)->data()))>
  constexpr IntArrayRef(const C& c) : data_(c.data()), n_(c.size()) {}
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + n_; }
  const int64_t* data() const { return data_; }
  size_t size() const { return n_; }
  bool empty() const { return n_ == 0; }
  const int64_t& operator[](size_t i) const { return data_[i]; }
  const int64_t& at(size_t i) const {
    if (i >= n_) dice_emulate::dice_fail("index %zu out of range", i);
    return data_[i];
  }
  const int64_t& front() const { return data_[0]; }
  const int64_t& back() const { return data_[n_ - 1]; }
  IntArrayRef slice(size_t from, size_t n) const { return {data_ + from, n}; }
  IntArrayRef slice(size_t from) const { return {data_ + from, n_ - from}; }
  bool equals(IntArrayRef o) const {
    if (n_ != o.n_) return false;
    for (size_t i = 0; i < n_; ++i)
      if (data_[i] != o.data_[i]) return false;
    return true;
  }
  friend bool operator==(IntArrayRef a, IntArrayRef b) { return a.equals(b); }
#ifdef DICE_EMULATE_STL
  std::vector<int64_t> vec() const { return {begin(), end()}; }
  operator std::vector<int64_t>() const { return vec(); }
#endif

 private:
  const int64_t* data_ = nullptr;
  size_t n_ = 0;
};
}  // namespace c10

#endif  // DICE_EMULATE_SCALAR_TYPE_H_
