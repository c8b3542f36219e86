// A judge that judges nothing: for tests and load tests of pool and worker.
// Its verdicts say `device: synthetic`, and no pool mixes devices.
#ifndef DICE_EVALUATOR_WORKER_SYNTHETIC_JUDGE_H_
#define DICE_EVALUATOR_WORKER_SYNTHETIC_JUDGE_H_

#include <atomic>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "evaluator/worker/judge.h"

namespace dice {

// Each evaluation takes `duration` on `clock` and is CORRECT, unless the
// candidate holds a line like
//   # synthetic: ms=50 outcome=TIMEOUT infra=text crash
// (any subset, values without blanks). `infra` fails as our own error; `crash`
// ends the whole process. Thread-safe; records what it was asked.
class SyntheticJudge : public Judge {
 public:
  SyntheticJudge(absl::Duration duration, Clock& clock)
      : duration_(duration), clock_(clock) {}

  absl::StatusOr<Verdict> Evaluate(const Task& task,
                                   const std::string& candidate,
                                   const Profile& profile) override;
  absl::StatusOr<Verdict> EvaluateControlled(
      const Task& task, const std::string& candidate, const Profile& profile,
      const EvaluationControl& control) override;
  void Shutdown() override { stop_.request_stop(); }

  Isolation isolation() const override { return ISOLATION_NONE; }
  std::string device() const override { return "synthetic"; }
  std::string harness_version() const override { return "synthetic-1"; }

  // How often each candidate was judged, finished or not.
  std::map<std::string, int> calls() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const absl::Duration duration_;
  Clock& clock_;
  std::stop_source stop_;
  mutable Mutex mu_;
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_SYNTHETIC_JUDGE_H_
