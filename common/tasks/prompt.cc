#include "common/tasks/prompt.h"

#include "absl/strings/str_cat.h"

namespace dice {
namespace {

constexpr absl::string_view kTask =
    "Write a CUDA version of the PyTorch module below that computes the same "
    "result faster.\n\n"
    "Rules:\n"
    "- Answer with one complete Python file in a single ```python block.\n"
    "- Define `class ModelNew(nn.Module)` with the constructor and the forward "
    "arguments of `Model`.\n"
    "- Compile the kernels with `load_inline` from "
    "`torch.utils.cpp_extension`; they must do the work, not PyTorch.\n"
    "- Leave out tests, timing and explanations.\n\n"
    "PyTorch module:\n```python\n";

std::string User(absl::string_view message) {
  return absl::StrCat("<|im_start|>user\n", message,
                      "<|im_end|>\n<|im_start|>assistant\n");
}

absl::string_view EndLine(absl::string_view text) {
  return text.empty() || text.back() == '\n' ? "" : "\n";
}

}  // namespace

std::string EndToEndPrompt(absl::string_view reference_source) {
  return User(absl::StrCat(kTask, reference_source, EndLine(reference_source),
                           "```\n"));
}

std::string InfillPrompt(absl::string_view reference_source,
                         const Scaffold& scaffold) {
  return absl::StrCat(
      User(absl::StrCat(
          kTask, reference_source, EndLine(reference_source),
          "```\n\nThe file begins with:\n```python\n", scaffold.prefix(),
          EndLine(scaffold.prefix()), "```\nand ends with:\n```python\n",
          scaffold.suffix(), EndLine(scaffold.suffix()),
          "```\nKeep both and write what is missing between them.\n")),
      "```python\n");
}

}  // namespace dice
