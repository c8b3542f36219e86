// Makes infilling tasks: cuts a complete kernel into prefix, middle and suffix
// at structure, found by small tokenizers for Python and CUDA C++, never by
// line counts alone.
#ifndef DICE_COMMON_TASKS_SCAFFOLD_H_
#define DICE_COMMON_TASKS_SCAFFOLD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/task.pb.h"

namespace dice {

// What becomes the middle.
enum class ScaffoldCut {
  // The statements of a __global__ body after its index lines (those that name
  // threadIdx, blockIdx or blockDim) and, where one `if` holds all that
  // follows, inside that guard.
  kKernelBody,
  kKernel,    // a whole __global__ function, from its template line on
  kLauncher,  // the body of the host function that launches with <<< >>>
};

// A function found in CUDA C++ text. Offsets are into the text given.
struct FunctionSpan {
  std::string name;
  size_t begin = 0;        // of the declaration (template, attributes included)
  size_t body_begin = 0;   // just after its {
  size_t body_end = 0;     // at its }
  bool is_global = false;  // has __global__
  bool launches = false;   // its body has <<<
};

// Functions defined at namespace level of `cuda`, in order. Comments, strings,
// character and raw string literals and preprocessor lines never count as
// structure. INVALID_ARGUMENT: brackets do not balance.
absl::StatusOr<std::vector<FunctionSpan>> FindFunctions(absl::string_view cuda);

// [begin, end) of the contents of Python string literals (all kinds of quotes
// and prefixes), in order; comments are skipped. An unterminated literal ends
// the list.
std::vector<std::pair<size_t, size_t>> FindPythonStrings(
    absl::string_view python);

// All cuts of that kind in `source`, in order: a Python candidate (the CUDA
// text is looked for in its string literals) or plain CUDA. Each reassembles
// byte for byte, and none has an empty middle. NOT_FOUND: no place for it.
absl::StatusOr<std::vector<Scaffold>> CutScaffolds(absl::string_view source,
                                                   ScaffoldCut cut);

}  // namespace dice

#endif  // DICE_COMMON_TASKS_SCAFFOLD_H_
