// What a candidate may include and name: tables and predicates of the splitter.
#ifndef DICE_EVALUATOR_COMPILE_SOURCE_RULES_H_
#define DICE_EVALUATOR_COMPILE_SOURCE_RULES_H_

#include <string>
#include <string_view>

namespace dice {

enum class IncludeKind {
  kProvided,     // the facade has it: the line goes
  kDevice,       // so does NVRTC's folder: the device text keeps it
  kStandard,     // the C++ library
  kUnsupported,  // exists, but is not emulated
  kUnknown,      // no such file for a candidate
};
IncludeKind ClassifyInclude(std::string_view name);

// A function that lets threads wait for each other.
bool IsBarrierName(std::string_view name);
// A namespace, type or prefix that only host code has (torch, std::vector,
// ...).
bool IsHostName(std::string_view name);
// A name that the lite header lacks.
bool NeedsFacade(std::string_view name);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_SOURCE_RULES_H_
