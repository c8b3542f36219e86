#include "evaluator/pool/pool_process.h"

#include <memory>
#include <stop_token>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/metrics/http_server.h"
#include "common/rpc/backoff.h"
#include "common/rpc/server.h"
#include "evaluator/pool/pool_service.h"

namespace dice {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);

ServerRunner::Options ServerOptions(const PoolProcessOptions& o) {
  return {.host = o.host,
          .port = o.port,
          .ready_file = o.ready_file,
          .max_streams_per_connection = 4096,
          .transport = {.ca_path = o.tls_ca,
                        .cert_path = o.tls_cert,
                        .key_path = o.tls_key,
                        .token_file = o.token_file,
                        .allow_insecure = o.allow_insecure}};
}

}  // namespace

absl::Status RunPool(const PoolProcessOptions& options) {
  std::stop_source stopping;
  SignalHandler signals([&] { stopping.request_stop(); });
  Clock& clock = Clock::Real();

  MetricRegistry registry;
  PoolMetrics metrics(registry);
  Health health;
  Health::ProgressClock& progress =
      health.AddProgressClock("pool tick", absl::Seconds(30));
  std::unique_ptr<MetricsServer> http;
  if (options.metrics_port >= 0) {
    DICE_ASSIGN_OR_RETURN(
        http, MetricsServer::Start(registry, health, options.metrics_host,
                                   options.metrics_port));
  }
  DICE_ASSIGN_OR_RETURN(const std::unique_ptr<PoolStore> store,
                        PoolStore::Open({.path = options.cache_path,
                                         .timing_ttl = options.timing_ttl}));
  Pool pool(options.queue,
            {.store = *store, .metrics = metrics, .clock = clock});
  EvaluatorServiceImpl evaluator(pool);
  WorkerServiceImpl worker(pool);
  ServerRunner::Options server_options = ServerOptions(options);
  if (http) server_options.metrics_address = http->address();
  DICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerRunner> server,
      ServerRunner::Start(server_options, {&evaluator, &worker}));
  const std::jthread ticker =
      StartThread("pool-tick", [&](std::stop_token stop) {
        while (SleepUnlessStopped(clock, kTick, stop)) {
          pool.Tick();
          progress.Touch();
        }
      });
  DICE_RETURN_IF_ERROR(server->MarkReady());
  health.SetReady(true);
  DICE_LOG(kInfo) << "pool serves on " << server->address()
                  << (http ? ", metrics on " + http->address() : "");

  while (SleepUnlessStopped(clock, absl::Hours(1), stopping.get_token())) {
  }
  health.SetReady(false);
  pool.StartDraining();
  const absl::Time deadline = clock.Now() + options.drain;
  while (!pool.Idle() && clock.Now() < deadline) clock.Sleep(kTick);
  server->Drain(absl::Milliseconds(500));
  DICE_LOG(kInfo) << "drained";
  return absl::OkStatus();
}

}  // namespace dice
