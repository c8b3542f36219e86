// Collectives between the learner's ranks, by c10d. One thread issues them, in
// the same order on every rank.
#ifndef DICE_COMMON_PARALLEL_PROCESS_GROUP_H_
#define DICE_COMMON_PARALLEL_PROCESS_GROUP_H_

#include <torch/torch.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/parallel/rank.h"

namespace dice {

// Not thread-safe. Every call blocks until all ranks made it, a peer is gone,
// or the timeout passed; UNAVAILABLE in the last two, with c10d's text, and the
// group is unusable: the process is expected to exit, never to repair it.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // In place; `tensor` fp32 or fp64, contiguous, same shape on every rank.
  virtual absl::Status AllReduceSum(torch::Tensor tensor) = 0;
  // Rank 0's bytes on every rank.
  virtual absl::StatusOr<std::string> Broadcast(const std::string& bytes) = 0;
  virtual absl::Status Barrier() = 0;
};

struct ProcessGroupOptions {
  // Prefix of the store's keys, so that a restart never meets stale ones; the
  // attempt is added.
  std::string run_key;
  absl::Duration rendezvous_timeout = absl::Minutes(5);
  absl::Duration timeout = absl::Minutes(5);  // of one collective
};

// gloo on CPUs; no network at all for a world of one. Rendezvous through a
// TCPStore at master_address:master_port, served by rank 0 unless torchrun's
// agent does.
absl::StatusOr<std::unique_ptr<ProcessGroup>> CreateProcessGroup(
    const RankInfo& info, const ProcessGroupOptions& options);

}  // namespace dice

#endif  // DICE_COMMON_PARALLEL_PROCESS_GROUP_H_
