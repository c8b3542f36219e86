// Compiles what a candidate passed to load_inline. CPU only, jailed, cached by
// content (failures too), identical requests in flight compile once, and
// requests that wait together may share one compiler run.
#ifndef DICE_EVALUATOR_COMPILE_COMPILER_H_
#define DICE_EVALUATOR_COMPILE_COMPILER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dice {

struct CompileRequest {
  std::vector<std::string> cpp_sources;
  std::vector<std::string> cuda_sources;
  std::vector<std::string> functions;
  std::vector<std::string> cuda_flags;  // only an allow-list is honoured
  std::vector<std::string> cpp_flags;
  bool address_sanitizer = false;
};

struct CompileResult {
  enum class Kind {
    kOk,
    kError,        // the candidate's fault; `text` is the compiler's output
    kUnsupported,  // this device lacks something; `text` names it
  };
  Kind kind = Kind::kOk;
  std::string object_path;  // shared object to load, owned by the cache
  std::string text;
  std::string tier;  // which way compiled it, e.g. "lite", "facade"
  bool cached = false;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // Blocks. Thread-safe. A Status is an infrastructure failure.
  virtual absl::StatusOr<CompileResult> Compile(
      const CompileRequest& request) = 0;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_COMPILER_H_
