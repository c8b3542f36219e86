#include "learner/server.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/metrics/http_server.h"
#include "common/rpc/server.h"
#include "learner/service.h"

namespace dice {
namespace {

class GrpcLearnerServer final : public LearnerServer {
 public:
  explicit GrpcLearnerServer(Deps deps)
      : deps_(std::move(deps)),
        service_({.leases = deps_.leases,
                  .policies = deps_.policies,
                  .metrics = deps_.metrics,
                  .clock = deps_.clock,
                  .status = deps_.status}) {}

  absl::Status Listen(const LearnerServerOptions& o) {
    ServerRunner::Options options{.host = o.host,
                                  .port = o.port,
                                  .ready_file = o.ready_file,
                                  .transport = {.ca_path = o.tls_ca,
                                                .cert_path = o.tls_cert,
                                                .key_path = o.tls_key,
                                                .token_file = o.token_file,
                                                .allow_insecure =
                                                    o.allow_insecure}};
    if (o.metrics_port >= 0) {
      DICE_ASSIGN_OR_RETURN(
          http_, MetricsServer::Start(deps_.registry, deps_.health,
                                      o.metrics_host, o.metrics_port));
      options.metrics_address = http_->address();
    }
    DICE_ASSIGN_OR_RETURN(server_, ServerRunner::Start(options, {&service_}));
    return absl::OkStatus();
  }

  absl::Status MarkReady() override {
    deps_.health.SetReady(true);
    return server_->MarkReady();
  }
  void AwaitFarewell(absl::Duration limit) override {
    service_.AwaitFarewell(deps_.clock.Now() + limit);
  }
  void Drain(absl::Duration grace) override {
    deps_.health.SetReady(false);
    server_->Drain(grace);
  }
  std::string address() const override { return server_->address(); }

 private:
  const Deps deps_;
  LearnerServiceImpl service_;
  std::unique_ptr<MetricsServer> http_;
  std::unique_ptr<ServerRunner> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LearnerServer>> LearnerServer::Start(
    const LearnerServerOptions& options, Deps deps) {
  auto server = std::make_unique<GrpcLearnerServer>(std::move(deps));
  DICE_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace dice
