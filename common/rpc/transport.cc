#include "common/rpc/transport.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {

absl::StatusOr<std::string> Token(const TransportOptions& options) {
  if (options.token_file.empty()) return options.token;
  DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.token_file));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.token_file, " holds no token"));
  }
  return std::string(token);
}

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
  if (!options.token.empty() || !options.token_file.empty()) {
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
