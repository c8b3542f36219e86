#include "evaluator/worker/work_process.h"

#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/metrics/http_server.h"
#include "common/rpc/channel.h"
#include "common/rpc/protocol.h"
#include "common/rpc/ready_file.h"
#include "evaluator/worker/metrics.h"
#include "evaluator/worker/pool_link.h"
#include "evaluator/worker/work_loop.h"

namespace dice {
namespace {

// The pool tells streams of one process from those of another by the name.
std::string UniqueName(const std::string& name) {
  char host[256] = "worker";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(name.empty() ? host : name, "/", getpid(), "-",
                      absl::Hex(absl::ToUnixMillis(Clock::Real().Now())));
}

RegisterWorker Hello(const WorkProcessOptions& options, const Judge& judge) {
  RegisterWorker hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_name(UniqueName(options.name));
  hello.set_device(judge.device());
  hello.set_harness_version(judge.harness_version());
  hello.set_slots(options.slots);
  hello.set_isolation(judge.isolation());
  return hello;
}

}  // namespace

absl::Status RunWorker(const WorkProcessOptions& options, Judge& judge) {
  if (options.pool.empty()) {
    return absl::InvalidArgumentError("--pool host:port is missing");
  }
  std::stop_source stopping;
  SignalHandler signals([&] { stopping.request_stop(); });
  Clock& clock = Clock::Real();

  MetricRegistry registry;
  WorkerMetrics metrics(registry);
  metrics.slots.Set(options.slots);
  Health health;
  Health::ProgressClock& progress =
      health.AddProgressClock("heartbeat", 12 * options.heartbeat);
  std::unique_ptr<MetricsServer> http;
  if (options.metrics_port >= 0) {
    DICE_ASSIGN_OR_RETURN(
        http, MetricsServer::Start(registry, health, options.metrics_host,
                                   options.metrics_port));
  }
  DICE_ASSIGN_OR_RETURN(
      const auto channel,
      CreateChannel(options.pool, {.ca_path = options.tls_ca,
                                   .cert_path = options.tls_cert,
                                   .key_path = options.tls_key,
                                   .token_file = options.token_file,
                                   .allow_insecure = options.allow_insecure}));
  PoolLink link(channel, Hello(options, judge), clock);
  WorkLoop loop({.slots = options.slots,
                 .heartbeat = options.heartbeat,
                 .stage_limit = options.stage_limit},
                judge, clock, [&](WorkerMessage message) {
                  if (message.has_heartbeat()) progress.Touch();
                  if (message.has_result()) {
                    (message.result().has_verdict() ? metrics.verdicts
                                                    : metrics.infra_errors)
                        .Increment();
                  }
                  link.Send(std::move(message));
                });
  const auto on_connected = [&] {
    metrics.connections.Increment();
    health.SetReady(true);
    if (options.ready_file.empty()) return;
    const absl::Status written = WriteReadyFile(
        options.ready_file, {.metrics_address = http ? http->address() : ""});
    if (!written.ok()) DICE_LOG(kError) << written;
  };
  std::jthread runner = StartThread("pool-link", [&](std::stop_token stop) {
    link.Run(loop, stop, on_connected);
  });
  DICE_LOG(kInfo) << "worker on " << judge.device() << " with " << options.slots
                  << " slots, pool " << options.pool;

  while (SleepUnlessStopped(clock, absl::Seconds(1), stopping.get_token())) {
    metrics.held.Set(loop.held());
  }
  health.SetReady(false);
  link.StartDraining(clock.Now() + absl::Seconds(2));
  if (!loop.AwaitIdle(clock.Now() + options.drain)) {
    DICE_LOG(kWarning) << loop.held() << " evaluations given back";
  }
  link.Close(clock.Now() + absl::Seconds(2));
  runner.request_stop();
  runner.join();
  DICE_LOG(kInfo) << "drained";
  return absl::OkStatus();
}

}  // namespace dice
