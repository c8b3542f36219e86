// The flags of dice-evaluator. Included by main.cc only.
#ifndef DICE_EVALUATOR_FLAGS_H_
#define DICE_EVALUATOR_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "evaluator/pool/pool_process.h"
#include "evaluator/worker/judge.h"
#include "evaluator/worker/work_process.h"

namespace dice {

struct EvaluatorFlags {
  std::string mode;
  PoolProcessOptions pool;
  WorkProcessOptions worker;
  LocalJudgeOptions judge;
  int synthetic_judge_ms = -1;
  // Shared by both modes, or in units that a flag can hold.
  std::string ready_file, metrics_host = "127.0.0.1";
  int metrics_port = 0;
  std::string token_file, tls_cert, tls_key, tls_ca;
  bool allow_insecure = false;
  double lease_s = 30, timing_ttl_h = 24 * 7, drain_s = -1, heartbeat_s = 5;
};

inline void AddFlags(CLI::App& app, EvaluatorFlags* f) {
  app.add_option("--mode", f->mode, "pool | worker")
      ->required()
      ->check(CLI::IsMember({"pool", "worker"}));
  app.add_option("--ready-file", f->ready_file,
                 "written when the process is ready: address=, metrics=, pid=");
  app.add_option("--metrics-host", f->metrics_host);
  app.add_option("--metrics-port", f->metrics_port,
                 "/metrics, /healthz, /readyz; 0 = any, -1 = none");
  app.add_option("--token-file", f->token_file,
                 "bearer token that both sides share");
  app.add_option("--tls-cert", f->tls_cert);
  app.add_option("--tls-key", f->tls_key);
  app.add_option("--tls-ca", f->tls_ca);
  app.add_flag("--allow-insecure", f->allow_insecure,
               "plaintext to other machines");
  app.add_option("--drain-seconds", f->drain_s,
                 "how long SIGTERM waits for evaluations (pool 10, worker 60)");

  auto* pool = app.add_option_group("pool", "--mode pool");
  pool->add_option("--host", f->pool.host);
  pool->add_option("--port", f->pool.port, "0 = any");
  pool->add_option("--cache", f->pool.cache_path,
                   "SQLite file of verdicts and tasks; empty = in memory");
  pool->add_option("--queue-limit", f->pool.queue.queue_limit);
  pool->add_option("--client-limit", f->pool.queue.client_limit);
  pool->add_option("--lease-seconds", f->lease_s);
  pool->add_option("--max-infra-errors", f->pool.queue.max_infra_errors,
                   "on different workers, then an evaluation is lost");
  pool->add_option("--max-worker-losses", f->pool.queue.max_worker_losses);
  pool->add_option("--confirm-timeouts", f->pool.queue.confirm_timeouts,
                   "repeat a TIMEOUT alone before it counts");
  pool->add_option("--timing-ttl-hours", f->timing_ttl_h,
                   "cached verdicts with times expire");

  auto* worker = app.add_option_group("worker", "--mode worker");
  worker->add_option("--pool", f->worker.pool, "host:port of the front");
  worker->add_option("--name", f->worker.name);
  worker->add_option("--slots", f->worker.slots)->check(CLI::PositiveNumber);
  worker->add_option("--heartbeat-seconds", f->heartbeat_s);
  worker->add_option("--device", f->judge.device, "auto | cuda | emulated");
  worker->add_option("--isolation", f->judge.isolation,
                     "auto | full | partial | none");
  worker->add_option("--python", f->judge.python);
  worker->add_option("--harness-dir", f->judge.harness_dir);
  worker->add_option("--cache-dir", f->judge.cache_dir,
                     "compiled objects; empty = private");
  worker->add_option("--memory-limit-mib", f->judge.memory_limit_mib);
  worker->add_option("--synthetic-judge-ms", f->synthetic_judge_ms,
                     "judge nothing, take this long (load tests)");
}

// Copies the shared flags to where they are used.
inline void Finalize(EvaluatorFlags* f) {
  const auto copy = [&](auto& options, double default_drain) {
    options.ready_file = f->ready_file;
    options.metrics_host = f->metrics_host;
    options.metrics_port = f->metrics_port;
    options.tls_cert = f->tls_cert;
    options.tls_key = f->tls_key;
    options.tls_ca = f->tls_ca;
    options.allow_insecure = f->allow_insecure;
    options.token_file = f->token_file;
    options.drain = absl::Seconds(f->drain_s < 0 ? default_drain : f->drain_s);
  };
  copy(f->pool, 10);
  copy(f->worker, 60);
  f->pool.queue.lease = absl::Seconds(f->lease_s);
  f->pool.timing_ttl = absl::Hours(f->timing_ttl_h);
  f->worker.heartbeat = absl::Seconds(f->heartbeat_s);
  f->judge.max_concurrent = f->worker.slots;
}

}  // namespace dice

#endif  // DICE_EVALUATOR_FLAGS_H_
