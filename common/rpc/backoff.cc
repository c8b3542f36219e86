#include "common/rpc/backoff.h"

#include <algorithm>

namespace dice {

absl::Duration Backoff::Next() {
  const absl::Duration step = next_;
  next_ = std::min(next_ * options_.factor, options_.longest);
  return step * (0.5 + 0.5 * rng_.Uniform());
}

bool SleepUnlessStopped(Clock& clock, absl::Duration d, std::stop_token stop) {
  Mutex mu;
  CondVar woken;
  std::stop_callback wake(stop, [&] {
    MutexLock lock(mu);
    woken.NotifyAll();
  });
  const absl::Time deadline = clock.Now() + d;
  MutexLock lock(mu);
  while (!stop.stop_requested() && clock.Now() < deadline) {
    clock.Await(woken, mu, deadline);
  }
  return !stop.stop_requested();
}

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

absl::Status Retry(Clock& clock, Backoff& backoff, absl::Time deadline,
                   std::stop_token stop,
                   const std::function<absl::Status()>& call) {
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    absl::Status status = call();
    if (status.ok()) backoff.Reset();
    if (status.ok() || !IsRetryable(status)) return status;
    const absl::Duration wait = backoff.Next();
    if (clock.Now() + wait > deadline) return status;
    if (!SleepUnlessStopped(clock, wait, stop)) {
      return absl::CancelledError("stopped");
    }
  }
}

}  // namespace dice
