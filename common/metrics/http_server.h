// /metrics, /healthz and /readyz over HTTP.
#ifndef DICE_COMMON_METRICS_HTTP_SERVER_H_
#define DICE_COMMON_METRICS_HTTP_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/metrics/health.h"
#include "common/metrics/registry.h"

namespace dice {

// Serves until destroyed, on two threads of its own. cpp-httplib stays inside
// the .cc: its classes change with compile definitions.
class MetricsServer {
 public:
  // Port 0 lets the system choose. `registry` and `health` outlive the server.
  // UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const MetricRegistry& registry, const Health& health,
      const std::string& host, int port);
  ~MetricsServer();

  int port() const;
  std::string address() const;  // "host:port"

 private:
  struct Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dice

#endif  // DICE_COMMON_METRICS_HTTP_SERVER_H_
