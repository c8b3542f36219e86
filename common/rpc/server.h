// Server side: binds, announces itself, drains.
#ifndef DICE_COMMON_RPC_SERVER_H_
#define DICE_COMMON_RPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/transport.h"

namespace dice {

// Owns the gRPC server of a process. Services with the callback interface hold
// no thread for a stream, so a dead peer costs memory only, and keepalive ends
// it. Thread-safe after Start.
class ServerRunner {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;                 // 0: the system chooses
    std::string ready_file;       // written by MarkReady; empty = none
    std::string metrics_address;  // told in the ready file
    int max_streams_per_connection = 1024;
    TransportOptions transport;
  };
  // Serves `services` (not owned, outlive this) and the standard health
  // service, which says NOT_SERVING until MarkReady. UNAVAILABLE: the address
  // cannot be bound; INVALID_ARGUMENT: plaintext is refused.
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(
      const Options& options, const std::vector<grpc::Service*>& services);
  // Drains with no grace.
  ~ServerRunner();

  int port() const { return port_; }
  std::string address() const;  // "host:port"

  // Health says SERVING; the ready file appears.
  absl::Status MarkReady();
  // Health says NOT_SERVING, new calls are refused, calls in flight have
  // `grace` to end before they are cancelled. Blocks until all ended.
  // Idempotent.
  void Drain(absl::Duration grace);

 private:
  ServerRunner(Options options, int port,
               std::shared_ptr<grpc::AuthMetadataProcessor> auth,
               std::unique_ptr<grpc::Server> server);
  const Options options_;
  const int port_;
  const std::shared_ptr<grpc::AuthMetadataProcessor> auth_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace dice

#endif  // DICE_COMMON_RPC_SERVER_H_
