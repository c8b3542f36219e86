// The record of a training run: metrics.jsonl and TensorBoard events of the
// same numbers, one row for each learner step.
#ifndef DICE_COMMON_METRICS_RUN_LOG_H_
#define DICE_COMMON_METRICS_RUN_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/metrics/event_file.h"

namespace dice {

// Keys in the order of Set. A number that is not finite becomes null.
class MetricsRow {
 public:
  using Value = std::variant<double, int64_t, std::string>;
  MetricsRow& Set(const std::string& key, double value);
  MetricsRow& Set(const std::string& key, int64_t value);
  MetricsRow& Set(const std::string& key, int value) {
    return Set(key, int64_t{value});
  }
  MetricsRow& Set(const std::string& key, const std::string& value);
  const std::vector<std::pair<std::string, Value>>& values() const {
    return values_;
  }
  std::string ToJson() const;  // one line

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

// Not thread-safe. One owner for each run folder.
class RunLog {
 public:
  // Opens run_dir/metrics.jsonl, cut to its first `keep_rows` rows, and a new
  // file in run_dir/tensorboard/. A resumed run passes the rows() that its
  // checkpoint recorded, so that repeated steps do not appear twice
  // (TensorBoard does the same by itself). OUT_OF_RANGE: the file has fewer
  // rows.
  static absl::StatusOr<std::unique_ptr<RunLog>> Create(
      const std::string& run_dir, int64_t keep_rows = 0,
      Clock& clock = Clock::Real());

  // Appends `row`; its numbers go to TensorBoard as "<group>/<key>" at `step`,
  // which counts over the whole run. Both files are flushed.
  absl::Status Write(const std::string& group, int64_t step,
                     const MetricsRow& row);
  int64_t rows() const { return rows_; }

 private:
  RunLog(std::string path, int64_t rows, std::unique_ptr<EventFile> events,
         Clock& clock)
      : path_(std::move(path)),
        rows_(rows),
        events_(std::move(events)),
        clock_(clock) {}
  const std::string path_;
  int64_t rows_;
  std::unique_ptr<EventFile> events_;
  Clock& clock_;
};

}  // namespace dice

#endif  // DICE_COMMON_METRICS_RUN_LOG_H_
