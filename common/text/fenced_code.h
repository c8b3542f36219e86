// Finds the program in a chat model's answer.
#ifndef DICE_COMMON_TEXT_FENCED_CODE_H_
#define DICE_COMMON_TEXT_FENCED_CODE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace dice {

// The content of the last complete fenced block (``` or ~~~, any info string,
// fences at most three spaces in) whose language is one of python, py, cpp,
// c++, cuda, cu or none, after the last "</think>" where there is one. Blocks
// of a code language win over blocks of none. A fence that the end of the text
// leaves open counts only if no block is complete. nullopt: no such block.
std::optional<std::string> ExtractFencedCode(absl::string_view text);

}  // namespace dice

#endif  // DICE_COMMON_TEXT_FENCED_CODE_H_
