#include "common/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dice {
namespace {

std::atomic<LogLevel> min_level{LogLevel::kInfo};

std::string& Role() {
  static auto* role = new std::string("dice");
  return *role;
}

}  // namespace

void SetLogRole(const std::string& role) { Role() = role; }
void SetMinLogLevel(LogLevel level) { min_level = level; }
LogLevel MinLogLevel() { return min_level; }

LogMessage::LogMessage(LogLevel level, const char* file, int line)
    : level_(level) {
  const char* slash = std::strrchr(file, '/');
  stream_ << absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                              absl::UTCTimeZone())
          << ' ' << "DIWEF"[static_cast<int>(level)] << ' ' << Role() << ' '
          << (slash ? slash + 1 : file) << ':' << line << "] ";
}

LogMessage::~LogMessage() {
  stream_ << '\n';
  const std::string text = stream_.str();
  // One write: lines of several threads and processes do not interleave.
  ssize_t n = write(STDERR_FILENO, text.data(), text.size());
  (void)n;
  if (level_ == LogLevel::kFatal) std::abort();
}

}  // namespace dice
