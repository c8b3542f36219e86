// The front as a process: store, pool, server, metrics, signals.
#ifndef DICE_EVALUATOR_POOL_POOL_PROCESS_H_
#define DICE_EVALUATOR_POOL_POOL_PROCESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "evaluator/pool/queue_types.h"

namespace dice {

struct PoolProcessOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string ready_file;
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;    // -1: no metrics
  std::string cache_path;  // empty: in memory
  absl::Duration timing_ttl = absl::Hours(24 * 7);
  absl::Duration drain = absl::Seconds(10);
  QueueOptions queue;
  std::string token_file;  // empty: no token
  std::string tls_cert, tls_key, tls_ca;
  bool allow_insecure = false;
};

// Runs until SIGTERM or SIGINT, then drains: refuses new evaluations, waits up
// to `drain` for those in flight, and returns OK. An error: it could not start.
absl::Status RunPool(const PoolProcessOptions& options);

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_POOL_PROCESS_H_
