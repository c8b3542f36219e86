#include "common/rpc/server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>
#include <openssl/crypto.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/rpc/ready_file.h"

namespace dice {
namespace {

// Every call must carry "authorization: Bearer TOKEN".
class TokenCheck : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(const std::string& token)
      : expected_(absl::StrCat("Bearer ", token)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*,
                       OutputMetadata* consumed, OutputMetadata*) override {
    const auto it = metadata.find("authorization");
    if (it == metadata.end() || it->second.size() != expected_.size() ||
        CRYPTO_memcmp(it->second.data(), expected_.data(), expected_.size())) {
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                          "a valid token is required");
    }
    consumed->emplace("authorization",
                      std::string(it->second.data(), it->second.size()));
    return grpc::Status::OK;
  }

 private:
  const std::string expected_;
};

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(
    const TransportOptions& options, bool token) {
  if (options.cert_path.empty()) {
    return !token ? grpc::InsecureServerCredentials()
                  : grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  }
  grpc::SslServerCredentialsOptions ssl(
      options.ca_path.empty()
          ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
          : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  DICE_ASSIGN_OR_RETURN(pair.private_key, ReadFile(options.key_path));
  DICE_ASSIGN_OR_RETURN(pair.cert_chain, ReadFile(options.cert_path));
  ssl.pem_key_cert_pairs.push_back(pair);
  if (!options.ca_path.empty()) {
    DICE_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadFile(options.ca_path));
  }
  return grpc::SslServerCredentials(ssl);
}

void SetLimits(const ServerRunner::Options& options,
               grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.transport.max_message_bytes);
  builder.SetMaxSendMessageSize(options.transport.max_message_bytes);
  const std::pair<const char*, int64_t> args[] = {
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection},
      {GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(kKeepaliveTime)},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
       absl::ToInt64Milliseconds(kKeepaliveTimeout)},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      // Clients ping idle streams every kKeepaliveTime: never "too many pings".
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
       absl::ToInt64Milliseconds(kKeepaliveTime / 3)},
      {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
      // A second server on the port must fail, not share it.
      {GRPC_ARG_ALLOW_REUSEPORT, 0},
  };
  for (const auto& [name, value] : args) {
    builder.AddChannelArgument(name, static_cast<int>(value));
  }
}

}  // namespace

ServerRunner::ServerRunner(Options options, int port,
                           std::shared_ptr<grpc::AuthMetadataProcessor> auth,
                           std::unique_ptr<grpc::Server> server)
    : options_(std::move(options)),
      port_(port),
      auth_(std::move(auth)),
      server_(std::move(server)) {}

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(
    const Options& options, const std::vector<grpc::Service*>& services) {
  DICE_RETURN_IF_ERROR(CheckPlaintext(options.host, options.transport));
  DICE_ASSIGN_OR_RETURN(const std::string token, Token(options.transport));
  DICE_ASSIGN_OR_RETURN(const auto credentials,
                        Credentials(options.transport, !token.empty()));
  std::shared_ptr<grpc::AuthMetadataProcessor> auth;
  if (!token.empty()) {
    auth = std::make_shared<TokenCheck>(token);
    credentials->SetAuthMetadataProcessor(auth);
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  int port = 0;
  builder.AddListeningPort(absl::StrCat(options.host, ":", options.port),
                           credentials, &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.host, ":", options.port));
  }
  server->GetHealthCheckService()->SetServingStatus(false);
  return std::unique_ptr<ServerRunner>(
      new ServerRunner(options, port, std::move(auth), std::move(server)));
}

ServerRunner::~ServerRunner() { Drain(absl::ZeroDuration()); }

std::string ServerRunner::address() const {
  return absl::StrCat(options_.host, ":", port_);
}

absl::Status ServerRunner::MarkReady() {
  server_->GetHealthCheckService()->SetServingStatus(true);
  if (options_.ready_file.empty()) return absl::OkStatus();
  return WriteReadyFile(
      options_.ready_file,
      {.address = address(), .metrics_address = options_.metrics_address});
}

void ServerRunner::Drain(absl::Duration grace) {
  if (auto* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(false);
  }
  server_->Shutdown(std::chrono::system_clock::now() +
                    absl::ToChronoMilliseconds(grace));
  server_->Wait();
}

}  // namespace dice
