// TensorBoard's event files: TFRecord framing around Event messages.
#ifndef DICE_COMMON_METRICS_EVENT_FILE_H_
#define DICE_COMMON_METRICS_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"

namespace dice {

// Castagnoli's CRC-32, masked as TFRecord files store it.
uint32_t MaskedCrc32c(absl::string_view bytes);

// Appends scalars to one new file. Not thread-safe.
class EventFile {
 public:
  // Makes `dir`/events.out.tfevents.<Unix seconds>.<pid>.dice and writes its
  // header. Errors: those of common/base/file.h.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& dir, Clock& clock = Clock::Real());
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  // One event with all `scalars` (tag, value). A reader sees it on return.
  absl::Status WriteScalars(
      int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  EventFile(int fd, Clock& clock) : fd_(fd), clock_(clock) {}
  absl::Status WriteRecord(absl::string_view data);
  const int fd_;
  Clock& clock_;
};

}  // namespace dice

#endif  // DICE_COMMON_METRICS_EVENT_FILE_H_
