// The only source of time. Production code takes a Clock&; tests own a
// FakeClock and advance it, so that no test sleeps.
#ifndef DICE_COMMON_BASE_CLOCK_H_
#define DICE_COMMON_BASE_CLOCK_H_

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace dice {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  // Blocks until `deadline`.
  virtual void SleepUntil(absl::Time deadline) = 0;
  // Waits on `cv` once: returns after a notification, spuriously, or at
  // `deadline`. `mu` is held on entry and exit.
  virtual void Await(CondVar& cv, Mutex& mu, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) = 0;

  void Sleep(absl::Duration d) { SleepUntil(Now() + d); }
  // The process-wide real clock; never destroyed.
  static Clock& Real();
};

// Time stands still until Advance. Thread-safe.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1'000'000'000))
      : now_(start) {}
  absl::Time Now() override ABSL_LOCKS_EXCLUDED(mu_);
  void SleepUntil(absl::Time deadline) override ABSL_LOCKS_EXCLUDED(mu_);
  void Await(CondVar& cv, Mutex& mu, absl::Time deadline) override;
  // Moves time on and wakes everyone who waits.
  void Advance(absl::Duration d) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  CondVar slept_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_COMMON_BASE_CLOCK_H_
