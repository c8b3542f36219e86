#include "common/base/clock.h"

#include <chrono>
#include <thread>

#include "absl/time/clock.h"

namespace dice {
namespace {

class RealClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
  void SleepUntil(absl::Time deadline) override {
    absl::SleepFor(deadline - absl::Now());
  }
  void Await(CondVar& cv, Mutex& mu, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (deadline == absl::InfiniteFuture()) {
      cv.Wait(mu);
      return;
    }
    // The steady clock: a step of the wall clock must not stretch a wait.
    const absl::Duration left = deadline - absl::Now();
    cv.WaitUntil(mu, std::chrono::steady_clock::now() +
                         absl::ToChronoNanoseconds(left));
  }
};

}  // namespace

Clock& Clock::Real() {
  static Clock* clock = new RealClock;
  return *clock;
}

absl::Time FakeClock::Now() {
  MutexLock lock(mu_);
  return now_;
}

void FakeClock::SleepUntil(absl::Time deadline) {
  MutexLock lock(mu_);
  while (now_ < deadline) slept_.Wait(mu_);
}

void FakeClock::Await(CondVar& cv, Mutex& mu, absl::Time deadline)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
  if (Now() >= deadline) return;
  // Advance cannot know who waits on `cv`; poll in real time, decide in fake.
  cv.WaitUntil(mu, std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(1));
}

void FakeClock::Advance(absl::Duration d) {
  MutexLock lock(mu_);
  now_ += d;
  slept_.NotifyAll();
}

}  // namespace dice
