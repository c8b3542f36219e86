#include "evaluator/compile/nvrtc.h"

#include <dlfcn.h>

namespace dice {
namespace {

constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION

}  // namespace

template <typename F>
bool Nvrtc::Find(void* library, const char* name, F* function,
                 std::string* error) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  if (*function == nullptr) *error = std::string("NVRTC lacks ") + name;
  return *function != nullptr;
}

bool Nvrtc::Load(const std::string& path, std::string* error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *error = dlerror();
    return false;
  }
  return Find(library, "nvrtcCreateProgram", &create_, error) &&
         Find(library, "nvrtcCompileProgram", &compile_, error) &&
         Find(library, "nvrtcGetProgramLogSize", &log_size_, error) &&
         Find(library, "nvrtcGetProgramLog", &log_, error) &&
         Find(library, "nvrtcDestroyProgram", &destroy_, error);
}

unsigned Nvrtc::Compile(const std::string& source,
                        const std::vector<std::string>& options,
                        std::string* log) {
  Program program = nullptr;
  if (create_(&program, source.c_str(), "candidate.cu", 0, nullptr, nullptr))
    return 2;
  std::vector<const char*> pointers;
  for (const std::string& o : options) pointers.push_back(o.c_str());
  const int code =
      compile_(program, static_cast<int>(pointers.size()), pointers.data());
  size_t n = 0;
  if (log_size_(program, &n) == 0 && n > 1) {
    log->resize(n);
    log_(program, log->data());
    log->resize(n - 1);
  }
  destroy_(&program);
  return code == 0 ? 0 : code == kCompilationError ? 1 : 2;
}

}  // namespace dice
