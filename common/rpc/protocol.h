// The protocol version, exchanged when a stream begins.
#ifndef DICE_COMMON_RPC_PROTOCOL_H_
#define DICE_COMMON_RPC_PROTOCOL_H_

#include <cstdint>

namespace dice {

// Raised when old and new processes must not work together; a mismatch is
// FAILED_PRECONDITION or, on a worker's stream, `refused`.
inline constexpr int32_t kProtocolVersion = 1;

}  // namespace dice

#endif  // DICE_COMMON_RPC_PROTOCOL_H_
