// --set a.b[2].c=value on any message.
#ifndef DICE_COMMON_CONFIG_OVERRIDES_H_
#define DICE_COMMON_CONFIG_OVERRIDES_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace dice {

// Sets one field. A path element of a repeated field has an index in brackets:
// a number (one past the end appends), or the `name` of an existing element
// ("stages[infill].steps=5"). Strings are taken as they are, enums by name,
// messages as textproto in braces. INVALID_ARGUMENT says which element is wrong
// and what would be right; the message is unchanged then, unless an element was
// appended on the way.
absl::Status ApplyOverride(const std::string& set,
                           google::protobuf::Message* message);

}  // namespace dice

#endif  // DICE_COMMON_CONFIG_OVERRIDES_H_
