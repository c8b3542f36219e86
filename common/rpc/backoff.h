// Waiting between tries, and trying again. No gRPC in here.
#ifndef DICE_COMMON_RPC_BACKOFF_H_
#define DICE_COMMON_RPC_BACKOFF_H_

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/rng.h"

namespace dice {

// Exponential, with full jitter in the upper half, so that a crowd of clients
// that lost the same server does not come back in step. Not thread-safe.
class Backoff {
 public:
  struct Options {
    absl::Duration first = absl::Milliseconds(100);
    absl::Duration longest = absl::Seconds(5);
    double factor = 2;
    uint64_t seed = 0;  // differs between processes (a pid will do)
  };
  explicit Backoff(const Options& options)
      : options_(options), rng_(options.seed), next_(options.first) {}

  // The time to wait now: between half of the current step and all of it.
  absl::Duration Next();
  // After a success: starts again at `first`.
  void Reset() { next_ = options_.first; }

 private:
  const Options options_;
  Rng rng_;
  absl::Duration next_;
};

// Sleeps for `d`; false when `stop` was requested before or meanwhile.
bool SleepUnlessStopped(Clock& clock, absl::Duration d, std::stop_token stop);

// UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED and ABORTED pass by
// themselves; other codes do not.
bool IsRetryable(const absl::Status& status);

// Calls `call` until it returns OK or an error that is not retryable, waiting
// in between. After `deadline` the last error is returned, after `stop`
// CANCELLED.
absl::Status Retry(Clock& clock, Backoff& backoff, absl::Time deadline,
                   std::stop_token stop,
                   const std::function<absl::Status()>& call);

}  // namespace dice

#endif  // DICE_COMMON_RPC_BACKOFF_H_
