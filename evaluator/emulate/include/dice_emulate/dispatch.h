// AT_DISPATCH_*: one instantiation per element type, chosen at run time.
#ifndef DICE_EMULATE_DISPATCH_H_
#define DICE_EMULATE_DISPATCH_H_

#include "half.h"
#include "torch_names.h"

#define AT_DISPATCH_CASE(type, ...)                                         \
  case type: {                                                              \
    using scalar_t [[maybe_unused]] = dice_emulate::CppType<type>;          \
    return __VA_ARGS__();                                                   \
  }
#define AT_DISPATCH_SWITCH(type, name, ...)                                 \
  [&] {                                                                     \
    const c10::ScalarType dice_type = (type);                               \
    switch (dice_type) {                                                    \
      __VA_ARGS__                                                           \
      default:                                                              \
        dice_emulate::dice_fail("\"%s\" not implemented for '%s'", name,    \
                                c10::toString(dice_type));                  \
    }                                                                       \
  }()

namespace dice_emulate {
template <c10::ScalarType type>
struct CppTypeOf;
#define DICE_CPP_TYPE_(T, name)                    \
  template <>                                      \
  struct CppTypeOf<c10::ScalarType::name> {        \
    using type = T;                                \
  };
DICE_CPP_TYPE_(uint8_t, Byte)
DICE_CPP_TYPE_(int8_t, Char)
DICE_CPP_TYPE_(int16_t, Short)
DICE_CPP_TYPE_(int32_t, Int)
DICE_CPP_TYPE_(int64_t, Long)
DICE_CPP_TYPE_(float, Float)
DICE_CPP_TYPE_(double, Double)
DICE_CPP_TYPE_(bool, Bool)
DICE_CPP_TYPE_(c10::Half, Half)
DICE_CPP_TYPE_(c10::BFloat16, BFloat16)
#undef DICE_CPP_TYPE_
template <c10::ScalarType type>
using CppType = typename CppTypeOf<type>::type;
}  // namespace dice_emulate

#define DICE_CASE_(name, ...) \
  AT_DISPATCH_CASE(c10::ScalarType::name, __VA_ARGS__)
#define DICE_FLOATING_(...) \
  DICE_CASE_(Double, __VA_ARGS__) DICE_CASE_(Float, __VA_ARGS__)
#define DICE_INTEGRAL_(...)                                      \
  DICE_CASE_(Byte, __VA_ARGS__) DICE_CASE_(Char, __VA_ARGS__)    \
  DICE_CASE_(Int, __VA_ARGS__) DICE_CASE_(Long, __VA_ARGS__)     \
  DICE_CASE_(Short, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, DICE_FLOATING_(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  AT_DISPATCH_SWITCH(                                        \
      type, name, DICE_FLOATING_(__VA_ARGS__) DICE_CASE_(Half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                           \
                     DICE_FLOATING_(__VA_ARGS__)           \
                         AT_DISPATCH_CASE(T, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T, U, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                               \
                     DICE_FLOATING_(__VA_ARGS__)               \
                         AT_DISPATCH_CASE(T, __VA_ARGS__)      \
                             AT_DISPATCH_CASE(U, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, DICE_INTEGRAL_(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(                          \
      type, name, DICE_FLOATING_(__VA_ARGS__) DICE_INTEGRAL_(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                      \
                     DICE_FLOATING_(__VA_ARGS__)      \
                         DICE_INTEGRAL_(__VA_ARGS__)  \
                             AT_DISPATCH_CASE(T, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T, U, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                          \
                     DICE_FLOATING_(__VA_ARGS__)          \
                         DICE_INTEGRAL_(__VA_ARGS__)      \
                             AT_DISPATCH_CASE(T, __VA_ARGS__) \
                                 AT_DISPATCH_CASE(U, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T, U, V, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                             \
                     DICE_FLOATING_(__VA_ARGS__)             \
                         DICE_INTEGRAL_(__VA_ARGS__)         \
                             AT_DISPATCH_CASE(T, __VA_ARGS__) \
                                 AT_DISPATCH_CASE(U, __VA_ARGS__) \
                                     AT_DISPATCH_CASE(V, __VA_ARGS__))

#endif  // DICE_EMULATE_DISPATCH_H_
