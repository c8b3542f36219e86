// NVRTC, loaded at run time from the Python environment: the build needs no
// CUDA toolkit.
#ifndef DICE_EVALUATOR_COMPILE_NVRTC_H_
#define DICE_EVALUATOR_COMPILE_NVRTC_H_

#include <string>
#include <vector>

namespace dice {

class Nvrtc {
 public:
  // False: the library cannot be loaded; `*error` says why.
  bool Load(const std::string& path, std::string* error);
  // 0: compiled; 1: the source is wrong; 2: NVRTC itself failed. *log has the
  // compiler's words.
  unsigned Compile(const std::string& source,
                   const std::vector<std::string>& options, std::string* log);

 private:
  template <typename F>
  bool Find(void* library, const char* name, F* function, std::string* error);

  using Program = void*;
  int (*create_)(Program*, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*log_size_)(Program, size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_NVRTC_H_
