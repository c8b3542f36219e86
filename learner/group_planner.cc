#include "learner/group_planner.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace dice {

GroupPlanner::GroupPlanner(const Options& options)
    : options_(options), next_step_(options.first_step) {}

GroupPlanner::Slot GroupPlanner::Make(int64_t ordinal, int64_t step) const {
  return {ordinal, step,
          options_.version_of_step0 +
              std::max<int64_t>(0, step - options_.max_staleness)};
}

std::vector<GroupPlanner::Slot> GroupPlanner::Admit(int64_t step) {
  std::vector<Slot> out;
  const int64_t last =
      std::min(options_.steps - 1, step + options_.max_staleness);
  for (; next_step_ <= last; ++next_step_) {
    for (int64_t i = 0; i < options_.tasks_per_step; ++i) {
      const int64_t ordinal = next_step_ * options_.tasks_per_step + i;
      out.push_back(Make(ordinal, next_step_));
      step_of_[ordinal] = next_step_;
    }
    steps_[next_step_].expected += options_.tasks_per_step;
  }
  return out;
}

std::optional<GroupPlanner::Slot> GroupPlanner::Refill(int64_t step) {
  const int64_t budget = kMaxRefillRounds * options_.tasks_per_step;
  int64_t& used = refills_[step];
  if (used == budget) return std::nullopt;
  const int64_t ordinal =
      options_.steps * options_.tasks_per_step + step * budget + used++;
  step_of_[ordinal] = step;
  ++steps_[step].expected;
  return Make(ordinal, step);
}

void GroupPlanner::Put(CompletedGroup group) {
  const int64_t ordinal = group.lease.task_ordinal();
  const auto it = step_of_.find(ordinal);
  DICE_CHECK(it != step_of_.end()) << "group " << ordinal << " twice";
  steps_[it->second].groups[ordinal] = std::move(group);
  step_of_.erase(it);
}

bool GroupPlanner::Complete(int64_t step) const {
  const auto it = steps_.find(step);
  return it != steps_.end() &&
         static_cast<int64_t>(it->second.groups.size()) == it->second.expected;
}

std::vector<CompletedGroup> GroupPlanner::Take(int64_t step) {
  std::vector<CompletedGroup> out;
  const auto it = steps_.find(step);
  if (it == steps_.end()) return out;
  for (auto& [ordinal, group] : it->second.groups) {
    out.push_back(std::move(group));
  }
  it->second.expected -= static_cast<int64_t>(it->second.groups.size());
  it->second.groups.clear();
  return out;
}

int64_t GroupPlanner::outstanding() const {
  int64_t n = static_cast<int64_t>(step_of_.size());
  for (const auto& [step, s] : steps_) {
    n += static_cast<int64_t>(s.groups.size());
  }
  return n;
}

}  // namespace dice
