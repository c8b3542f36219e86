// What both ends of a connection agree on: protocol version, credentials,
// keepalive, message size. Used by server.h and channel.h.
#ifndef DICE_COMMON_RPC_TRANSPORT_H_
#define DICE_COMMON_RPC_TRANSPORT_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/protocol.h"

namespace dice {

// A dead peer is noticed within the sum of these two.
inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(30);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);

// Without TLS only loopback addresses are allowed, unless `allow_insecure`. A
// token needs TLS or loopback.
struct TransportOptions {
  std::string ca_path;    // PEM; client: whom to trust, server: mutual TLS
  std::string cert_path;  // PEM; server: turns TLS on, client: mutual TLS
  std::string key_path;
  std::string token;       // bearer token, required of every call when set
  std::string token_file;  // read in place of `token` when set
  bool allow_insecure = false;
  int max_message_bytes = 64 << 20;
};

// The token itself, blanks at both ends removed. Errors: those of ReadFile.
absl::StatusOr<std::string> Token(const TransportOptions& options);
// True for localhost, 127.0.0.0/8, ::1 and unix sockets; `address` may carry a
// port.
bool IsLoopback(const std::string& address);
// INVALID_ARGUMENT when `options` would send plaintext to another machine.
absl::Status CheckPlaintext(const std::string& address,
                            const TransportOptions& options);

// Codes have the same numbers on both sides.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace dice

#endif  // DICE_COMMON_RPC_TRANSPORT_H_
