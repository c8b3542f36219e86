// Client side of a connection.
#ifndef DICE_COMMON_RPC_CHANNEL_H_
#define DICE_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/transport.h"

namespace dice {

// A lazy channel: connects at the first call, reconnects with backoff (0.1 to
// 5 s), pings an idle connection. INVALID_ARGUMENT: plaintext is refused, or a
// certificate cannot be read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(
    const std::string& address, const TransportOptions& options = {});

}  // namespace dice

#endif  // DICE_COMMON_RPC_CHANNEL_H_
