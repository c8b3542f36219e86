#include "evaluator/compile/missing_name.h"

#include <unistd.h>

#include <cctype>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"

namespace dice {
namespace {

bool IsPlainName(absl::string_view s) {
  if (s.empty()) return false;
  for (const char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

// The names between g++'s quotes on a line, in order.
std::vector<std::string> Quoted(absl::string_view line) {
  std::vector<std::string> names;
  for (size_t at = line.find('\''); at != line.npos;) {
    const size_t end = line.find('\'', at + 1);
    if (end == line.npos) break;
    names.emplace_back(line.substr(at + 1, end - at - 1));
    at = line.find('\'', end + 1);
  }
  return names;
}

bool FileHas(const std::string& path, const std::string& text) {
  const auto content = ReadFile(path);
  return content.ok() && absl::StrContains(*content, text);
}

bool IsTorchFunction(const std::string& include, const std::string& name) {
  return access(absl::StrCat(include, "/ATen/ops/", name, ".h").c_str(),
                R_OK) == 0;
}

bool IsTensorMethod(const std::string& include, const std::string& name) {
  return FileHas(include + "/ATen/core/TensorBody.h",
                 absl::StrCat(" ", name, "(")) ||
         FileHas(include + "/ATen/core/TensorBase.h",
                 absl::StrCat(" ", name, "("));
}

bool IsCudaName(const std::string& include, const std::string& name) {
  if (!absl::StartsWith(name, "cu") && !absl::StartsWith(name, "CU") &&
      !absl::StartsWith(name, "__"))
    return false;
  for (const char* file :
       {"cuda_runtime_api.h", "driver_types.h", "cublas_api.h", "cublasLt.h",
        "cuda_fp16.h", "cuda_bf16.h", "library_types.h",
        "crt/device_functions.h", "crt/math_functions.h"})
    if (FileHas(absl::StrCat(include, "/", file), name)) return true;
  return false;
}

bool IsTorchName(const std::string& include, const std::string& name) {
  for (const char* file :
       {"ATen/Dispatch.h", "c10/util/Exception.h",
        "torch/csrc/api/include/torch/types.h", "c10/cuda/CUDAStream.h",
        "c10/cuda/CUDAGuard.h", "ATen/cuda/CUDAContextLight.h",
        "c10/core/TensorOptions.h", "c10/core/ScalarType.h",
        "ATen/core/Tensor.h", "ATen/TensorUtils.h", "ATen/OpMathType.h",
        "ATen/AccumulateType.h"})
    if (FileHas(absl::StrCat(include, "/", file), name)) return true;
  return false;
}

}  // namespace

std::string RealMissingName(const std::string& log,
                            const std::string& torch_include,
                            const std::string& cuda_include) {
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t at = line.find("error: ");
    if (at == line.npos) continue;
    const absl::string_view message = line.substr(at);
    const std::vector<std::string> names = Quoted(message);
    if (names.empty()) continue;
    if (absl::StrContains(message, "has no member named") && names.size() > 1) {
      if (absl::StrContains(names[0], "Tensor") && IsPlainName(names[1]) &&
          IsTensorMethod(torch_include, names[1]))
        return "Tensor::" + names[1];
    } else if (absl::StrContains(message, "is not a member of") &&
               IsPlainName(names[0])) {
      if (IsTorchFunction(torch_include, names[0]) ||
          IsTorchName(torch_include, names[0]) ||
          IsCudaName(cuda_include, names[0]))
        return names[0];
    } else if (absl::StrContains(message, "no match for 'operator") &&
               absl::StrContains(message, "at::Tensor")) {
      return "operators of torch::Tensor";
    } else if (absl::StrContains(message, "was not declared") ||
               absl::StrContains(message, "does not name a type") ||
               absl::StrContains(message, "has not been declared")) {
      if (IsPlainName(names[0]) && (IsCudaName(cuda_include, names[0]) ||
                                    IsTorchName(torch_include, names[0])))
        return names[0];
    }
  }
  return "";
}

}  // namespace dice
