// From the words of a call (abi.h) to a C++ call and back. Templates over the
// function's type do the conversion: nothing parses a signature.
#ifndef DICE_EMULATE_ENTRY_H_
#define DICE_EMULATE_ENTRY_H_

#include "tensor_ops.h"

namespace dice_emulate {

extern "C" {
// The pybind rules: TypeError naming the position when `ok` is false.
DICE_HIDDEN void dice_expect(bool ok, int argument, const char* wanted);
DICE_HIDDEN TensorImpl* dice_argument_tensor(const int64_t* value, int index);
DICE_HIDDEN void dice_put(int64_t word);
DICE_HIDDEN void dice_put_tensor(TensorImpl* impl);
DICE_HIDDEN void dice_put_string(const char* text, int64_t bytes);
// Runs `body(words)` between the checks around a call. 0: results are ready;
// 1: RuntimeError and 2: TypeError, whose text is the result.
DICE_HIDDEN int dice_call(void (*body)(const int64_t*), const int64_t* words);
}

struct Cursor {
  const int64_t* at;
  int argument;
};

// From<T>::Get(cursor): one value as a T. Specialised for more types in
// entry_stl.h; the primary template stays undefined.
template <typename T>
struct From;
template <typename T>
struct From<const T> : From<T> {};
template <typename T>
struct From<T&> : From<T> {};
template <typename T>
struct From<T&&> : From<T> {};

template <>
struct From<at::Tensor> {
  static at::Tensor Get(Cursor& c) {
    dice_expect(*c.at == kTensor, c.argument, "torch.Tensor");
    auto* impl = dice_argument_tensor(c.at, c.argument);
    c.at += 5 + 2 * c.at[4];
    return at::Tensor::Adopt(impl);
  }
};
template <>
struct From<bool> {
  static bool Get(Cursor& c) {
    dice_expect(*c.at == kBool, c.argument, "bool");
    c.at += 2;
    return c.at[-1] != 0;
  }
};
template <typename T>
struct FromInt {
  static T Get(Cursor& c) {
    dice_expect((*c.at == kInt || *c.at == kBool) &&
                    int64_t(T(c.at[1])) == c.at[1],
                c.argument, "int");
    c.at += 2;
    return T(c.at[-1]);
  }
};
template <typename T>
struct FromFloat {
  static T Get(Cursor& c) {
    dice_expect(*c.at == kFloat || *c.at == kInt || *c.at == kBool, c.argument,
                "float");
    c.at += 2;
    return c.at[-2] == kFloat ? T(__builtin_bit_cast(double, c.at[-1]))
                              : T(c.at[-1]);
  }
};
template <> struct From<int> : FromInt<int> {};
template <> struct From<unsigned> : FromInt<unsigned> {};
template <> struct From<long> : FromInt<long> {};
template <> struct From<unsigned long> : FromInt<unsigned long> {};
template <> struct From<long long> : FromInt<long long> {};
template <> struct From<unsigned long long> : FromInt<unsigned long long> {};
template <> struct From<short> : FromInt<short> {};
template <> struct From<float> : FromFloat<float> {};
template <> struct From<double> : FromFloat<double> {};

inline void Put(const at::Tensor& t) { dice_put_tensor(t.defined() ? t.impl() : nullptr); }
inline void Put(bool v) { dice_put(kBool), dice_put(v); }
inline void Put(int64_t v) { dice_put(kInt), dice_put(v); }
inline void Put(int v) { Put(int64_t(v)); }
inline void Put(size_t v) { Put(int64_t(v)); }
inline void Put(double v) {
  dice_put(kFloat), dice_put(__builtin_bit_cast(int64_t, v));
}
inline void Put(float v) { Put(double(v)); }

template <int... i>
struct Indices {};
template <int n>
using CountTo = Indices<__integer_pack(n)...>;

// Holds converted arguments by value; references bind to them.
template <typename T>
struct Bare { using type = T; };
template <typename T>
struct Bare<T&> { using type = T; };
template <typename T>
struct Bare<T&&> { using type = T; };
template <typename T>
struct Bare<const T> : Bare<T> {};
template <typename T>
struct Bare<const T&> : Bare<T> {};

template <int i, typename T>
struct Slot { T value; };
template <typename I, typename... T>
struct Slots;
template <int... i, typename... T>
struct Slots<Indices<i...>, T...> : Slot<i, T>... {};

template <auto fn, typename R, typename... A, int... i>
inline void Invoke(const int64_t* words, R (*)(A...), Indices<i...>) {
  dice_expect(words[0] == sizeof...(A), -1, "another number of arguments");
  [[maybe_unused]] Cursor c{words + 1, -1};
  // Braces: evaluated from left to right.
  Slots<Indices<i...>, typename Bare<A>::type...> s{
      {(c.argument = i, From<A>::Get(c))}...};
  if constexpr (__is_same(R, void)) {
    fn(static_cast<A&&>(
        static_cast<Slot<i, typename Bare<A>::type>&>(s).value)...);
    dice_put(kNone);
  } else {
    Put(fn(static_cast<A&&>(
        static_cast<Slot<i, typename Bare<A>::type>&>(s).value)...));
  }
}

template <auto fn, typename R, typename... A>
inline void Enter(const int64_t* words, R (*type)(A...)) {
  Invoke<fn>(words, type, CountTo<sizeof...(A)>());
}

template <auto fn>
int Call(const int64_t* words) {
  return dice_call([](const int64_t* w) { Enter<fn>(w, fn); }, words);
}

// One function that Python may call. A module's table ends with a null name.
struct Entry {
  const char* name;
  int (*call)(const int64_t* words);
};

}  // namespace dice_emulate

// The candidates compiled together, and which of them this file is: copies of
// one shared object differ only in this word.
extern "C" {
extern DICE_HIDDEN const dice_emulate::Entry* const dice_modules[];
}

#endif  // DICE_EMULATE_ENTRY_H_
