// One evaluation: (task, candidate, profile) -> verdict. The judge owns the
// clock, the kill and the verdict; it believes of a candidate only the bytes of
// its output tensors.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_H_
#define DICE_EVALUATOR_WORKER_JUDGE_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/task.pb.h"
#include "proto/verdict.pb.h"

namespace dice {

// How a caller watches and ends one evaluation.
struct EvaluationControl {
  // Requested: the evaluation's tree is killed, the call returns CANCELLED.
  std::stop_token stop;
  // Called at the start of each stage, from any thread; may be empty. Progress
  // is what keeps a lease alive.
  std::function<void(JudgeStage)> on_stage;
};

class Judge {
 public:
  virtual ~Judge() = default;
  // Blocks until decided. Thread-safe: the worker calls it from one thread per
  // slot, and concurrent calls share compiles and oracles. A Status means that
  // WE failed (UNAVAILABLE: worth another try elsewhere); what the candidate
  // did is always a Verdict.
  virtual absl::StatusOr<Verdict> Evaluate(const Task& task,
                                           const std::string& candidate,
                                           const Profile& profile) = 0;
  // As Evaluate, with a handle. This default ignores the handle: the call ends
  // by the judge's own limits, and reports no progress.
  virtual absl::StatusOr<Verdict> EvaluateControlled(
      const Task& task, const std::string& candidate, const Profile& profile,
      const EvaluationControl& control) {
    return Evaluate(task, candidate, profile);
  }
  // Kills the tree of any evaluation in flight; those calls return CANCELLED.
  virtual void Shutdown() = 0;

  virtual Isolation isolation() const = 0;
  virtual std::string device() const = 0;           // "emulated"
  virtual std::string harness_version() const = 0;  // content hash of harness
};

struct LocalJudgeOptions {
  std::string device = "auto";     // auto | cuda | emulated
  std::string isolation = "auto";  // auto | full | partial | none
  std::string python;  // empty: $DICE_PYTHON, then the built-in path
  std::string
      harness_dir;  // empty: found beside the executable or in the source tree
  std::string cache_dir;           // compiled objects; empty = private temp
  int max_oracles = 16;            // live oracle processes (LRU)
  int max_concurrent = 16;         // Evaluate calls at once
  double memory_limit_mib = 4096;  // per runner
};
// The real judge on this machine. FAILED_PRECONDITION names what is missing
// and how to get it.
absl::StatusOr<std::unique_ptr<Judge>> CreateLocalJudge(
    const LocalJudgeOptions& options);

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_H_
