// The real CUDA compiler, as a library that is loaded at run time (torch's
// wheels carry it), so that device code is compiled for real on every machine,
// GPU or not. Used inside the compile box only: its input is hostile.
#ifndef DICE_EVALUATOR_COMPILE_NVRTC_H_
#define DICE_EVALUATOR_COMPILE_NVRTC_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dice {

// The newest libnvrtc and the CUDA include folder in a Python's site-packages,
// else of a toolkit. FAILED_PRECONDITION says where it was looked for.
struct NvrtcPlaces {
  std::string library;
  std::string include_dir;
};
absl::StatusOr<NvrtcPlaces> FindNvrtc(const std::string& site_packages);

class Nvrtc {
 public:
  // Loads the library. FAILED_PRECONDITION: not loadable, or another interface.
  static absl::StatusOr<std::unique_ptr<Nvrtc>> Load(const NvrtcPlaces& places);

  struct Result {
    bool ok = false;
    std::string log;  // compiler messages, also when ok
  };
  // Compiles to PTX; `name` stands in the messages. Safe after fork.
  Result Compile(const std::string& source, const std::string& name,
                 const std::vector<std::string>& options) const;

 private:
  struct Api;
  explicit Nvrtc(std::unique_ptr<Api> api);
  const std::unique_ptr<Api> api_;

 public:
  ~Nvrtc();
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_NVRTC_H_
