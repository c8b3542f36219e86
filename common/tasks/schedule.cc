#include "common/tasks/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/rng.h"
#include "nlohmann/json.hpp"

namespace dice {

using nlohmann::json;

absl::StatusOr<TaskSchedule> TaskSchedule::Create(
    Schedule kind, const std::vector<Task>& tasks, uint64_t seed) {
  TaskSchedule out;
  out.kind_ = kind == SCHEDULE_UNSPECIFIED ? SEQUENTIAL_ORDER : kind;
  out.seed_ = seed;
  std::string ids;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].quarantine_reason().empty()) out.usable_.push_back(i);
    out.families_.push_back(tasks[i].family());
    absl::StrAppend(&ids, tasks[i].id(), "\n");
  }
  if (out.usable_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("none of ", tasks.size(), " tasks can be used"));
  }
  out.fingerprint_ = Sha256Hex(ids);
  out.correct_.assign(tasks.size(), 0);
  out.tried_.assign(tasks.size(), 0);
  out.StartEpoch();
  return out;
}

size_t TaskSchedule::Next() {
  if (position_ == order_.size()) StartEpoch();
  ++ordinal_;
  return order_[position_++];
}

void TaskSchedule::Record(size_t index, int correct, int tried) {
  correct_.at(index) += correct;
  tried_.at(index) += tried;
}

double TaskSchedule::PassRate(size_t index) const {
  return (correct_.at(index) + 1.0) / (tried_.at(index) + 2.0);
}

std::vector<size_t> TaskSchedule::ShuffledOrder() const {
  Rng rng(StreamKey(seed_).Derive({static_cast<uint64_t>(epoch_)}));
  std::vector<size_t> mixed = usable_;
  for (size_t i = mixed.size(); i > 1; --i) {
    std::swap(mixed[i - 1], mixed[rng.Below(i)]);
  }
  // The k-th of a family's n tasks goes to about (k + u) / n of the epoch.
  std::map<std::string, std::vector<size_t>> by_family;
  for (const size_t i : mixed) by_family[families_[i]].push_back(i);
  std::vector<std::pair<double, size_t>> placed;
  for (const auto& [family, members] : by_family) {
    for (size_t k = 0; k < members.size(); ++k) {
      placed.emplace_back((k + rng.Uniform()) / members.size(), members[k]);
    }
  }
  std::sort(placed.begin(), placed.end());
  std::vector<size_t> order;
  for (const auto& [place, i] : placed) order.push_back(i);
  return order;
}

void TaskSchedule::StartEpoch() {
  ++epoch_;
  position_ = 0;
  if (kind_ == SHUFFLED) {
    order_ = ShuffledOrder();
    return;
  }
  order_ = usable_;
  if (kind_ == BY_DIFFICULTY) {
    std::stable_sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
      return PassRate(a) > PassRate(b);
    });
  }
}

std::string TaskSchedule::SaveCursor() const {
  return json{{"kind", static_cast<int>(kind_)},
              {"tasks", fingerprint_},
              {"seed", seed_},
              {"epoch", epoch_},
              {"position", position_},
              {"ordinal", ordinal_},
              {"order", order_},
              {"correct", correct_},
              {"tried", tried_}}
      .dump();
}

absl::Status TaskSchedule::RestoreCursor(absl::string_view cursor) {
  const json j = json::parse(cursor, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || j.value("tasks", "") != fingerprint_ ||
      j.value("kind", -1) != static_cast<int>(kind_)) {
    return absl::InvalidArgumentError(
        "the schedule's cursor is damaged or of another task set");
  }
  try {  // nlohmann throws on a missing or mistyped member
    TaskSchedule next = *this;
    j.at("seed").get_to(next.seed_);
    j.at("epoch").get_to(next.epoch_);
    j.at("position").get_to(next.position_);
    j.at("ordinal").get_to(next.ordinal_);
    j.at("order").get_to(next.order_);
    j.at("correct").get_to(next.correct_);
    j.at("tried").get_to(next.tried_);
    std::vector<size_t> sorted = next.order_;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != usable_ || next.position_ > next.order_.size() ||
        next.correct_.size() != correct_.size() ||
        next.tried_.size() != tried_.size()) {
      return absl::InvalidArgumentError("the schedule's cursor is damaged");
    }
    *this = std::move(next);
  } catch (const json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule's cursor: ", e.what()));
  }
  return absl::OkStatus();
}

}  // namespace dice
