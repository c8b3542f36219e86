// Client of dice-compile-box: runs jailed compilers for the worker.
#ifndef DICE_EVALUATOR_COMPILE_COMPILE_BOX_H_
#define DICE_EVALUATOR_COMPILE_COMPILE_BOX_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/channel.h"
#include "common/base/mutex.h"
#include "common/base/process.h"

namespace dice {

// Thread-safe; as many compilers run at once as calls are in flight.
class CompileBox {
 public:
  struct Options {
    std::string box_binary;
    std::string site_packages;               // where NVRTC is looked for
    std::vector<std::string> visible_paths;  // harness headers, caches
    int level = 3;                           // DICE_JAIL_*
    std::string log_path;
  };
  // FAILED_PRECONDITION: NVRTC or the jail is not to be had, with the reason.
  static absl::StatusOr<std::unique_ptr<CompileBox>> Start(
      const Options& options);
  ~CompileBox();

  struct Output {
    bool accepted = false;
    bool crashed = false;  // killed by time, memory or a signal
    std::string log;       // compiler messages, at most 64 KiB
  };
  // Device code through NVRTC. Blocks. UNAVAILABLE: the box is gone.
  absl::StatusOr<Output> Nvrtc(const std::string& source,
                               const std::string& name,
                               const std::vector<std::string>& options,
                               double seconds);
  // g++ with `args` (no -o) and `source` on its stdin; the object file is
  // written to `object_path` when accepted.
  absl::StatusOr<Output> Gxx(const std::string& source,
                             const std::vector<std::string>& args,
                             const std::string& object_path, double seconds);
  const std::string& cuda_include_dir() const { return cuda_include_dir_; }

 private:
  CompileBox() = default;
  absl::StatusOr<Output> Run(nlohmann::json job, const std::string& source,
                             int object_fd);
  void Listen(std::stop_token stop);

  std::string root_, cuda_include_dir_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<Channel> channel_;
  Mutex send_mu_;
  Mutex mu_;
  CondVar changed_;
  int64_t next_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, int> codes_ ABSL_GUARDED_BY(mu_);
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread listener_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_COMPILE_BOX_H_
