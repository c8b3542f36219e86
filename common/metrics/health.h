// Whether this process makes progress (/healthz) and wants traffic (/readyz).
#ifndef DICE_COMMON_METRICS_HEALTH_H_
#define DICE_COMMON_METRICS_HEALTH_H_

#include <list>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace dice {

// Thread-safe. Owned by main, outlives everyone who touches a clock of it.
class Health {
 public:
  explicit Health(Clock& clock = Clock::Real()) : clock_(clock) {}

  // The heartbeat of one loop. It counts as stale when it is running and was
  // not touched for its limit.
  class ProgressClock {
   public:
    void Touch() ABSL_LOCKS_EXCLUDED(health_.mu_);
    // A loop that waits for others on purpose (no work) is not stale.
    void Pause() ABSL_LOCKS_EXCLUDED(health_.mu_);

   private:
    friend class Health;
    ProgressClock(Health& health, std::string name, absl::Duration limit)
        : health_(health), name_(std::move(name)), limit_(limit) {}
    Health& health_;
    const std::string name_;
    const absl::Duration limit_;
    absl::Time touched_ ABSL_GUARDED_BY(health_.mu_) = absl::InfiniteFuture();
  };

  // The clock stands paused until its first Touch. Lives as long as `this`.
  ProgressClock& AddProgressClock(const std::string& name,
                                  absl::Duration limit);
  void SetReady(bool ready);
  bool ready() const;
  // Names of the stale clocks with their age; empty means healthy.
  std::string Stale() const;

 private:
  Clock& clock_;
  mutable Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  std::list<ProgressClock> clocks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_COMMON_METRICS_HEALTH_H_
