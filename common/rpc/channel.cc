#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const TransportOptions& options) {
  DICE_ASSIGN_OR_RETURN(const std::string token, Token(options));
  std::shared_ptr<grpc::ChannelCredentials> channel;
  if (!options.ca_path.empty()) {
    grpc::SslCredentialsOptions ssl;
    DICE_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadFile(options.ca_path));
    if (!options.cert_path.empty()) {
      DICE_ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadFile(options.cert_path));
      DICE_ASSIGN_OR_RETURN(ssl.pem_private_key, ReadFile(options.key_path));
    }
    channel = grpc::SslCredentials(ssl);
  } else if (!token.empty()) {
    channel = grpc::experimental::LocalCredentials(LOCAL_TCP);
  } else {
    return grpc::InsecureChannelCredentials();
  }
  if (token.empty()) return channel;
  return grpc::CompositeChannelCredentials(channel,
                                           grpc::AccessTokenCredentials(token));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(
    const std::string& address, const TransportOptions& options) {
  DICE_RETURN_IF_ERROR(CheckPlaintext(address, options));
  DICE_ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(options.max_message_bytes);
  args.SetMaxSendMessageSize(options.max_message_bytes);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
              absl::ToInt64Milliseconds(kKeepaliveTime));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
              absl::ToInt64Milliseconds(kKeepaliveTimeout));
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // Channels of one process to one address would share a connection, and its
  // flow control.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, args);
}

}  // namespace dice
