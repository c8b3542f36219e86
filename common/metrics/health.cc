#include "common/metrics/health.h"

#include "absl/strings/str_cat.h"

namespace dice {

void Health::ProgressClock::Touch() {
  MutexLock lock(health_.mu_);
  touched_ = health_.clock_.Now();
}

void Health::ProgressClock::Pause() {
  MutexLock lock(health_.mu_);
  touched_ = absl::InfiniteFuture();
}

Health::ProgressClock& Health::AddProgressClock(const std::string& name,
                                                absl::Duration limit) {
  MutexLock lock(mu_);
  clocks_.push_back(ProgressClock(*this, name, limit));
  return clocks_.back();
}

void Health::SetReady(bool ready) {
  MutexLock lock(mu_);
  ready_ = ready;
}

bool Health::ready() const {
  MutexLock lock(mu_);
  return ready_;
}

// The analysis cannot know that every clock's health_ is this object.
std::string Health::Stale() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  MutexLock lock(mu_);
  const absl::Time now = clock_.Now();
  std::string out;
  for (const ProgressClock& c : clocks_) {
    if (now - c.touched_ <= c.limit_) continue;
    absl::StrAppend(
        &out, c.name_, ": no progress for ",
        absl::FormatDuration(absl::Trunc(now - c.touched_, absl::Seconds(1))),
        "\n");
  }
  return out;
}

}  // namespace dice
