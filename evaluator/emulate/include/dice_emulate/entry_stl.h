// Arguments and results of standard library types; see entry.h.
#ifndef DICE_EMULATE_ENTRY_STL_H_
#define DICE_EMULATE_ENTRY_STL_H_

#include "entry.h"
#include "stl.h"

namespace dice_emulate {

template <>
struct From<std::string> {
  static std::string Get(Cursor& c) {
    dice_expect(*c.at == kString, c.argument, "str");
    std::string text(reinterpret_cast<const char*>(c.at + 2), size_t(c.at[1]));
    c.at += 2 + (c.at[1] + 7) / 8;
    return text;
  }
};

template <typename T>
struct From<std::optional<T>> {
  static std::optional<T> Get(Cursor& c) {
    if (*c.at == kNone) {
      ++c.at;
      return std::nullopt;
    }
    return From<T>::Get(c);
  }
};

// Items of a list name themselves by (position + 1) << 16 | argument, so that
// a tensor of a list can be handed back as it came.
template <typename T>
struct From<std::vector<T>> {
  static std::vector<T> Get(Cursor& c) {
    dice_expect(*c.at == kList || *c.at == kTuple, c.argument, "a list");
    std::vector<T> items;
    const int64_t n = c.at[1];
    const int argument = c.argument;
    c.at += 2;
    items.reserve(size_t(n));
    for (int64_t i = 0; i < n; ++i) {
      c.argument = argument | int(i + 1) << 16;
      items.push_back(From<T>::Get(c));
    }
    c.argument = argument;
    return items;
  }
};

template <>
struct From<c10::IntArrayRef> {
  static std::vector<int64_t> Get(Cursor& c) {
    return From<std::vector<int64_t>>::Get(c);
  }
};
template <>
struct Bare<c10::IntArrayRef> {
  using type = std::vector<int64_t>;
};

template <typename A, typename B>
struct From<std::pair<A, B>> {
  static std::pair<A, B> Get(Cursor& c) {
    dice_expect((*c.at == kList || *c.at == kTuple) && c.at[1] == 2,
                c.argument, "a pair");
    c.at += 2;
    A first = From<A>::Get(c);
    return {std::move(first), From<B>::Get(c)};
  }
};

inline void Put(const std::string& s) {
  dice_put_string(s.data(), int64_t(s.size()));
}
inline void Put(const char* s) { Put(std::string(s)); }
template <typename T>
void Put(const std::vector<T>& items);
template <typename T, size_t n>
void Put(const std::array<T, n>& items);
template <typename... T>
void Put(const std::tuple<T...>& items);
template <typename A, typename B>
void Put(const std::pair<A, B>& items);
template <typename T>
void Put(const std::optional<T>& item) {
  if (item) return Put(*item);
  dice_put(kNone);
}
template <typename T>
void Put(const std::vector<T>& items) {
  dice_put(kList), dice_put(int64_t(items.size()));
  for (const T& item : items) Put(item);
}
template <typename T, size_t n>
void Put(const std::array<T, n>& items) {
  dice_put(kList), dice_put(int64_t(n));
  for (const T& item : items) Put(item);
}
template <typename... T>
void Put(const std::tuple<T...>& items) {
  dice_put(kTuple), dice_put(int64_t(sizeof...(T)));
  std::apply([](const T&... item) { (Put(item), ...); }, items);
}
template <typename A, typename B>
void Put(const std::pair<A, B>& items) {
  dice_put(kTuple), dice_put(2), Put(items.first), Put(items.second);
}

}  // namespace dice_emulate

#endif  // DICE_EMULATE_ENTRY_STL_H_
