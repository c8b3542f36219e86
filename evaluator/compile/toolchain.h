// The tools that candidates are compiled with, and what is built from them once
// per cache folder: two precompiled headers and the emulation's runtime.
#ifndef DICE_EVALUATOR_COMPILE_TOOLCHAIN_H_
#define DICE_EVALUATOR_COMPILE_TOOLCHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluator/compile/box.h"

namespace dice {

struct ToolchainOptions {
  std::string cache_dir;    // made when missing
  std::string harness_dir;  // holds evaluator/emulate
  std::string python;       // whose site-packages have NVRTC
  int jobs = 2;             // compilers at once
};

class Toolchain {
 public:
  enum class Header { kLite, kFacade };

  // Finds everything and builds what is missing (5 s once per cache folder;
  // other processes wait for the first). FAILED_PRECONDITION names what is
  // missing and how to get it.
  static absl::StatusOr<std::unique_ptr<Toolchain>> Create(
      const ToolchainOptions& options);

  // Two toolchains with the same id give the same objects for a source.
  const std::string& id() const { return id_; }
  Box& box() { return *box_; }
  // g++ on standard input, with that header, into the shared object `output`.
  std::vector<std::string> GxxCommand(Header header,
                                      const std::string& output) const;
  // `headers`: with cuda_fp16.h and its like; without, parsing is faster.
  std::vector<std::string> NvrtcOptions(bool headers) const;
  // Text to put before device text.
  const std::string& device_prelude() const { return device_prelude_; }
  const std::string& cuda_include() const { return cuda_include_; }
  const std::string& torch_include() const { return torch_include_; }
  // A folder for one job, removed with the object.
  class JobFolder {
   public:
    explicit JobFolder(std::string path);
    ~JobFolder();
    JobFolder(const JobFolder&) = delete;
    JobFolder& operator=(const JobFolder&) = delete;
    const std::string& path() const { return path_; }

   private:
    const std::string path_;
  };
  std::unique_ptr<JobFolder> NewJobFolder() const;

 private:
  explicit Toolchain(const ToolchainOptions& options) : options_(options) {}
  absl::Status FindTools();
  absl::Status StartBox();
  absl::Status Build();
  absl::Status BuildHeader(const char* name);
  absl::Status BuildRuntime();
  absl::Status RunGxx(std::vector<std::string> args, const std::string& what);

  const ToolchainOptions options_;
  std::string emulate_dir_;  // harness_dir/evaluator/emulate
  std::string gxx_, gxx_version_;
  std::string site_packages_, nvrtc_, cuda_include_, torch_include_;
  std::string device_prelude_;
  std::string id_;
  std::string built_dir_;  // cache_dir/toolchain-<id>
  std::unique_ptr<Box> box_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_TOOLCHAIN_H_
