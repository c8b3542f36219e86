#include "common/rpc/transport.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dice {

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost") ||
         absl::StartsWith(address, "[::1]") || address == "::1" ||
         absl::StartsWith(address, "unix:");
}

absl::Status CheckPlaintext(const std::string& address,
                            const TransportOptions& options) {
  const bool tls = !options.cert_path.empty() || !options.ca_path.empty();
  if (tls || IsLoopback(address)) return absl::OkStatus();
  if (!options.token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token would travel in plaintext to ", address,
                     ": give a certificate (--tls-cert, --tls-key, --tls-ca)"));
  }
  if (options.allow_insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      address,
      " is not a loopback address: give a certificate (--tls-cert, "
      "--tls-key, --tls-ca) or allow plaintext by --allow-insecure"));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace dice
