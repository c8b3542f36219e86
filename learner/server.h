// The network side of rank 0: LearnerService, /metrics, the ready file. Keeps
// gRPC out of the units that use torch.
#ifndef DICE_LEARNER_SERVER_H_
#define DICE_LEARNER_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/health.h"
#include "common/metrics/registry.h"
#include "learner/lease_table.h"
#include "learner/metrics.h"
#include "learner/policy_board.h"

namespace dice {

struct LearnerServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                 // 0: the system chooses
  std::string ready_file;       // written by MarkReady; empty: none
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;         // -1: no metrics
  std::string token_file;       // empty: no token
  std::string tls_cert, tls_key, tls_ca;
  bool allow_insecure = false;  // plaintext beyond loopback
};

class LearnerServer {
 public:
  struct Deps {  // borrowed, outlive this
    LeaseTable& leases;
    PolicyBoard& policies;
    LearnerMetrics& metrics;
    MetricRegistry& registry;
    Health& health;
    Clock& clock;
    std::function<LearnerStatus()> status;  // thread-safe
  };
  // Listens. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<LearnerServer>> Start(
      const LearnerServerOptions& options, Deps deps);
  virtual ~LearnerServer() = default;

  // Health says SERVING; the ready file appears.
  virtual absl::Status MarkReady() = 0;
  // Blocks until all actors know that the run is over, at most `limit`.
  virtual void AwaitFarewell(absl::Duration limit) = 0;
  // Refuses new calls; those in flight have `grace`. Blocks until they ended.
  virtual void Drain(absl::Duration grace) = 0;
  virtual std::string address() const = 0;
};

}  // namespace dice

#endif  // DICE_LEARNER_SERVER_H_
