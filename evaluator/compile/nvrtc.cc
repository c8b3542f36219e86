#include "evaluator/compile/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dice {
namespace {

namespace fs = std::filesystem;

// Files below `dir` whose name begins with `prefix`, newest name last.
std::vector<std::string> Matching(const std::string& dir,
                                  const std::string& prefix) {
  std::vector<std::string> out;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(dir, ec)) {
    const std::string name = e.path().filename();
    if (name.rfind(prefix, 0) == 0 && name.find("builtins") == std::string::npos) {
      out.push_back(e.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

absl::StatusOr<NvrtcPlaces> FindNvrtc(const std::string& site_packages) {
  // The wheels of CUDA 13 share nvidia/cu13; those of CUDA 12 have one folder
  // each.
  const std::string nvidia = site_packages + "/nvidia";
  const std::vector<std::pair<std::string, std::string>> choices = {
      {nvidia + "/cu13/lib", nvidia + "/cu13/include"},
      {nvidia + "/cuda_nvrtc/lib", nvidia + "/cuda_runtime/include"},
      {"/usr/local/cuda/lib64", "/usr/local/cuda/include"}};
  std::string looked;
  for (const auto& [lib, include] : choices) {
    const auto found = Matching(lib, "libnvrtc.so");
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", lib);
    if (!found.empty()) return NvrtcPlaces{found.back(), include};
  }
  return absl::FailedPreconditionError(
      absl::StrCat("libnvrtc not found (it comes with torch's CUDA wheels); "
                   "looked in ",
                   looked));
}

// The part of nvrtc.h that we use; the interface is stable since CUDA 7.
struct Nvrtc::Api {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*,
                const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
};

Nvrtc::Nvrtc(std::unique_ptr<Api> api) : api_(std::move(api)) {}
Nvrtc::~Nvrtc() = default;

absl::StatusOr<std::unique_ptr<Nvrtc>> Nvrtc::Load(const NvrtcPlaces& places) {
  void* handle = dlopen(places.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("NVRTC: ", dlerror()));
  }
  auto api = std::make_unique<Api>();
  const auto bind = [&](auto& f, const char* name) {
    f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(
        dlsym(handle, name));
    return f != nullptr;
  };
  if (!bind(api->create, "nvrtcCreateProgram") ||
      !bind(api->compile, "nvrtcCompileProgram") ||
      !bind(api->log_size, "nvrtcGetProgramLogSize") ||
      !bind(api->log, "nvrtcGetProgramLog") ||
      !bind(api->destroy, "nvrtcDestroyProgram")) {
    return absl::FailedPreconditionError(
        absl::StrCat(places.library, " is not NVRTC"));
  }
  return std::unique_ptr<Nvrtc>(new Nvrtc(std::move(api)));
}

Nvrtc::Result Nvrtc::Compile(const std::string& source, const std::string& name,
                             const std::vector<std::string>& options) const {
  Result out;
  Api::Program program = nullptr;
  if (api_->create(&program, source.c_str(), name.c_str(), 0, nullptr,
                   nullptr) != 0) {
    out.log = "NVRTC could not take the source";
    return out;
  }
  std::vector<const char*> args;
  for (const std::string& o : options) args.push_back(o.c_str());
  out.ok = api_->compile(program, static_cast<int>(args.size()), args.data()) == 0;
  size_t size = 0;
  if (api_->log_size(program, &size) == 0 && size > 1) {
    out.log.resize(size);
    api_->log(program, out.log.data());
    out.log.resize(size - 1);
  }
  api_->destroy(&program);
  return out;
}

}  // namespace dice
