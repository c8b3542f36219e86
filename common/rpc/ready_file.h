// How a process tells its parent where it listens: a small file that appears,
// whole, when the process is ready. Lines of key=value.
#ifndef DICE_COMMON_RPC_READY_FILE_H_
#define DICE_COMMON_RPC_READY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dice {

struct ReadyInfo {
  std::string address;          // host:port of its gRPC server; "" = none
  std::string metrics_address;  // host:port of /metrics; "" = none
  int pid = 0;
};

// Fills in this process's pid. Errors: those of WriteFileAtomic.
absl::Status WriteReadyFile(const std::string& path, ReadyInfo info);
// NOT_FOUND: not ready yet. INVALID_ARGUMENT: not such a file.
absl::StatusOr<ReadyInfo> ReadReadyFile(const std::string& path);

}  // namespace dice

#endif  // DICE_COMMON_RPC_READY_FILE_H_
