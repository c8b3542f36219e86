// Propagation of absl::Status. Each layer adds its context:
//   DICE_RETURN_IF_ERROR(Load(path)) << "loading checkpoint " << path;
#ifndef DICE_COMMON_BASE_STATUS_MACROS_H_
#define DICE_COMMON_BASE_STATUS_MACROS_H_

#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace dice {

// Converts to Status or StatusOr<T>; text streamed in is put before the
// original message. Payloads are kept.
class StatusBuilder {
 public:
  explicit StatusBuilder(absl::Status status) : status_(std::move(status)) {}

  template <typename T>
  StatusBuilder& operator<<(const T& value) {
    context_ << value;
    return *this;
  }

  operator absl::Status() const { return Build(); }  // NOLINT
  template <typename T>
  operator absl::StatusOr<T>() const {  // NOLINT
    return Build();
  }

 private:
  absl::Status Build() const {
    const std::string context = context_.str();
    if (context.empty()) return status_;
    absl::Status out(status_.code(),
                     absl::StrCat(context, ": ", status_.message()));
    status_.ForEachPayload([&](absl::string_view url, const absl::Cord& p) {
      out.SetPayload(url, p);
    });
    return out;
  }

  absl::Status status_;
  std::ostringstream context_;
};

}  // namespace dice

#define DICE_RETURN_IF_ERROR(expr)                             \
  if (::absl::Status dice_status_ = (expr); dice_status_.ok()) \
    ;                                                          \
  else                                                         \
    return ::dice::StatusBuilder(std::move(dice_status_))

#define DICE_STATUS_CONCAT_(a, b) a##b
#define DICE_STATUS_CONCAT(a, b) DICE_STATUS_CONCAT_(a, b)

// DICE_ASSIGN_OR_RETURN(auto x, F());  optional third argument: context text.
#define DICE_ASSIGN_OR_RETURN(...)                                   \
  DICE_ASSIGN_PICK_(__VA_ARGS__, DICE_ASSIGN_3_, DICE_ASSIGN_2_, _)  \
  (DICE_STATUS_CONCAT(dice_statusor_, __LINE__), __VA_ARGS__)
#define DICE_ASSIGN_PICK_(a, b, c, pick, ...) pick
#define DICE_ASSIGN_2_(tmp, lhs, expr) DICE_ASSIGN_3_(tmp, lhs, expr, "")
#define DICE_ASSIGN_3_(tmp, lhs, expr, context)                    \
  auto tmp = (expr);                                               \
  if (!tmp.ok())                                                   \
    return ::dice::StatusBuilder(std::move(tmp).status()) << context; \
  lhs = std::move(tmp).value()

#endif  // DICE_COMMON_BASE_STATUS_MACROS_H_
