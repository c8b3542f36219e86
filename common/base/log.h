// Structured logging to stderr and broken-invariant checks. The distribution's
// abseil has no absl/log; LibTorch already owns the names LOG and CHECK.
//
//   DICE_LOG(kInfo) << "published version " << v;
//   DICE_CHECK(i < n) << "row " << i;
//
// A line: 2026-01-31T10:00:00.123Z I learner/0 file.cc:12] text
#ifndef DICE_COMMON_BASE_LOG_H_
#define DICE_COMMON_BASE_LOG_H_

#include <sstream>
#include <string>

namespace dice {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kFatal = 4 };

// Set once in main: the role and rank printed on each line ("actor/2").
void SetLogRole(const std::string& role);
// Lines below `level` are dropped. Default kInfo.
void SetMinLogLevel(LogLevel level);
LogLevel MinLogLevel();

// One log line; written whole, at destruction. kFatal aborts. Thread-safe.
class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line);
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage();
  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  std::ostringstream stream_;
};

struct LogVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace dice

#define DICE_LOG_IF_(level, cond)                         \
  !(cond) ? (void)0                                       \
          : ::dice::LogVoidify() &                        \
                ::dice::LogMessage(level, __FILE__, __LINE__).stream()
#define DICE_LOG(severity)                       \
  DICE_LOG_IF_(::dice::LogLevel::severity,       \
               ::dice::LogLevel::severity >= ::dice::MinLogLevel())
#define DICE_CHECK(cond)                           \
  DICE_LOG_IF_(::dice::LogLevel::kFatal, !(cond)) \
      << "Check failed: " #cond " "
#define DICE_CHECK_OK(expr)                                              \
  if (::absl::Status dice_check_ = (expr); dice_check_.ok())             \
    ;                                                                    \
  else                                                                   \
    DICE_LOG_IF_(::dice::LogLevel::kFatal, true) << dice_check_.ToString() << " "
#ifdef NDEBUG
#define DICE_DCHECK(cond) DICE_LOG_IF_(::dice::LogLevel::kFatal, false && !(cond))
#else
#define DICE_DCHECK(cond) DICE_CHECK(cond)
#endif

#endif  // DICE_COMMON_BASE_LOG_H_
