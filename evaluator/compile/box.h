// The compiler's end of dice-compile-box.
#ifndef DICE_EVALUATOR_COMPILE_BOX_H_
#define DICE_EVALUATOR_COMPILE_BOX_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/process.h"
#include "evaluator/compile/box_protocol.h"

namespace dice {

// Thread-safe. A box that dies is started again; its jobs in flight fail with
// UNAVAILABLE.
class Box {
 public:
  struct Options {
    std::string executable;
    std::string nvrtc;  // libnvrtc.so
    int jobs = 2;       // that run at once
    std::vector<std::string> readable;
  };
  // FAILED_PRECONDITION: the executable or NVRTC is not there.
  static absl::StatusOr<std::unique_ptr<Box>> Create(const Options& options);
  ~Box();

  // Blocks until the job ended. UNAVAILABLE: the box died.
  absl::StatusOr<BoxResult> Run(BoxJob job) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiter {
    bool done = false;
    absl::StatusOr<BoxResult> result = absl::UnavailableError("");
  };
  explicit Box(const Options& options) : options_(options) {}
  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Read(int fd) ABSL_LOCKS_EXCLUDED(mu_);
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<Process> process_ ABSL_GUARDED_BY(mu_);
  int fd_ ABSL_GUARDED_BY(mu_) = -1;
  bool dead_ ABSL_GUARDED_BY(mu_) = true;
  uint32_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint32_t, Waiter*> waiters_ ABSL_GUARDED_BY(mu_);
  Mutex write_mu_;  // one frame at a time
  std::jthread reader_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_BOX_H_
