// Parsing of textproto that reports every problem, not only the first.
#ifndef DICE_COMMON_CONFIG_TEXTPROTO_H_
#define DICE_COMMON_CONFIG_TEXTPROTO_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace dice {

// Parses `text` into `message` and returns the problems as
// "file:line:column: why", in order of line. Unknown fields are problems. What
// could be understood is set, even when there are problems.
std::vector<std::string> ParseTextproto(absl::string_view text,
                                        absl::string_view file,
                                        google::protobuf::Message* message);

}  // namespace dice

#endif  // DICE_COMMON_CONFIG_TEXTPROTO_H_
