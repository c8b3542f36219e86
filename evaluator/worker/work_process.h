// The worker as a process: judge, slots, link, metrics, signals.
#ifndef DICE_EVALUATOR_WORKER_WORK_PROCESS_H_
#define DICE_EVALUATOR_WORKER_WORK_PROCESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "evaluator/worker/judge.h"

namespace dice {

struct WorkProcessOptions {
  std::string pool;  // host:port
  std::string name;  // empty: the host's; made unique by pid
  int slots = 1;
  std::string ready_file;  // appears when registered with the pool
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;  // -1: no metrics
  absl::Duration heartbeat = absl::Seconds(5);
  absl::Duration stage_limit = absl::Minutes(5);
  absl::Duration drain = absl::Seconds(60);
  std::string token_file;  // empty: no token
  std::string tls_cert, tls_key, tls_ca;
  bool allow_insecure = false;
};

// Evaluates what the pool leases until SIGTERM or SIGINT, then drains: finishes
// what it holds within `drain`, kills the rest (the pool gives it to others),
// and returns OK. `judge` is not owned.
absl::Status RunWorker(const WorkProcessOptions& options, Judge& judge);

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_WORK_PROCESS_H_
