#include "common/metrics/run_log.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {

MetricsRow& MetricsRow::Set(const std::string& key, double value) {
  values_.emplace_back(key, value);
  return *this;
}
MetricsRow& MetricsRow::Set(const std::string& key, int64_t value) {
  values_.emplace_back(key, value);
  return *this;
}
MetricsRow& MetricsRow::Set(const std::string& key, const std::string& value) {
  values_.emplace_back(key, value);
  return *this;
}

std::string MetricsRow::ToJson() const {
  nlohmann::ordered_json json;
  for (const auto& [key, value] : values_) {
    std::visit([&, &k = key](const auto& v) { json[k] = v; }, value);
  }
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

namespace {

// The first `n` lines of `text`.
absl::StatusOr<std::string> FirstLines(const std::string& text, int64_t n) {
  size_t end = 0;
  for (int64_t i = 0; i < n; ++i) {
    const size_t newline = text.find('\n', end);
    if (newline == text.npos) {
      return absl::OutOfRangeError(
          absl::StrCat("it has ", i, " rows, not ", n));
    }
    end = newline + 1;
  }
  return text.substr(0, end);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Create(
    const std::string& run_dir, int64_t keep_rows, Clock& clock) {
  DICE_RETURN_IF_ERROR(MakeDirs(run_dir));
  const std::string path = JoinPath(run_dir, "metrics.jsonl");
  std::string kept;
  if (keep_rows > 0) {
    DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    DICE_ASSIGN_OR_RETURN(kept, FirstLines(text, keep_rows), path);
  }
  DICE_RETURN_IF_ERROR(WriteFileAtomic(path, kept));
  DICE_ASSIGN_OR_RETURN(
      std::unique_ptr<EventFile> events,
      EventFile::Create(JoinPath(run_dir, "tensorboard"), clock));
  return std::unique_ptr<RunLog>(
      new RunLog(path, keep_rows, std::move(events), clock));
}

absl::Status RunLog::Write(const std::string& group, int64_t step,
                           const MetricsRow& row) {
  DICE_RETURN_IF_ERROR(AppendLine(path_, row.ToJson()));
  ++rows_;
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [key, value] : row.values()) {
    const std::string tag = absl::StrCat(group, "/", key);
    if (const auto* d = std::get_if<double>(&value)) {
      if (std::isfinite(*d)) scalars.emplace_back(tag, *d);
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      scalars.emplace_back(tag, static_cast<double>(*i));
    }
  }
  return events_->WriteScalars(step, scalars);
}

}  // namespace dice
