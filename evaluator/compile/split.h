// From a candidate's CUDA source to two texts: the emulated one, where a
// launch is a call and which g++ compiles whole, and the device one, where host
// code is blanked out and which NVRTC judges. Both keep every line in its
// place.
#ifndef DICE_EVALUATOR_COMPILE_SPLIT_H_
#define DICE_EVALUATOR_COMPILE_SPLIT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dice {

struct SplitSource {
  std::string emulated;
  std::string device;
  // What no candidate may write (an include of another file, assembler): the
  // text of a compile error. Empty when all is well.
  std::string refusal;
  // What this device cannot run, e.g. "inline PTX". Empty: nothing.
  std::string unsupported;
  // Needs more than the lite header: includes beyond it, or names that it
  // lacks.
  bool needs_facade = false;
  // Could disturb others compiled in the same run: macros, external names,
  // objects with static storage, unbalanced brackets.
  bool needs_own_unit = false;
  std::vector<std::string> macros;  // that it defines
  bool has_kernels = false;
  bool has_launches = false;
  // Functions of a PYBIND11_MODULE: name -> C++ name.
  std::vector<std::pair<std::string, std::string>> bindings;
};

// `source`: the cuda_sources (or cpp_sources) joined. Never fails; what it does
// not understand stays as it is, for the compiler to judge.
SplitSource Split(std::string_view source);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_SPLIT_H_
