// The baseline times of tasks: measured once, by one evaluation while the
// others of that task wait, and now and then again.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_BASELINE_H_
#define DICE_EVALUATOR_WORKER_JUDGE_BASELINE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "evaluator/worker/judge_timing.h"

namespace dice {

// Thread-safe. Entries are some 100 bytes and are kept for good.
class BaselineCache {
 public:
  // The machine drifts (neighbours, clocks): after so many uses a time is
  // measured again.
  static constexpr int kUses = 64;

  // What `measure` (-> StatusOr<optional<MeasuredTime>>) gave for `key`;
  // nullopt: the baseline is not accepted, which is final. A Status is not
  // remembered.
  template <typename Measure>
  absl::StatusOr<std::optional<MeasuredTime>> Get(const std::string& key,
                                                  const Measure& measure)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const std::shared_ptr<Entry> entry = Find(key);
    MutexLock lock(entry->mu);
    if (entry->uses_left-- <= 0) {
      auto measured = measure();
      if (!measured.ok()) {
        entry->uses_left = 0;
        return measured.status();
      }
      entry->time = *measured;
      entry->uses_left = entry->time.has_value() ? kUses : 1 << 30;
    }
    return entry->time;
  }

 private:
  struct Entry {
    Mutex mu;
    int uses_left ABSL_GUARDED_BY(mu) = 0;
    std::optional<MeasuredTime> time ABSL_GUARDED_BY(mu);
  };
  std::shared_ptr<Entry> Find(const std::string& key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    std::shared_ptr<Entry>& entry = entries_[key];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    return entry;
  }

  Mutex mu_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_BASELINE_H_
