// Which rank this process is, from the environment that started it.
#ifndef DICE_COMMON_PARALLEL_RANK_H_
#define DICE_COMMON_PARALLEL_RANK_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace dice {

struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  // torchrun's agent serves the store at the master's port itself: every rank,
  // 0 too, connects as a client.
  bool agent_store = false;
  int attempt = 0;              // how often the launcher restarted the gang
  std::string source = "none";  // which environment won, for the log
};

using EnvironmentReader =
    std::function<std::optional<std::string>(const std::string& name)>;
// The process's own environment; an empty variable counts as unset.
std::optional<std::string> ReadEnvironment(const std::string& name);

// In this order: torchrun (RANK, WORLD_SIZE, LOCAL_RANK), Open MPI
// (OMPI_COMM_WORLD_*), Slurm (SLURM_PROCID, SLURM_NTASKS), a Kubernetes indexed
// job (JOB_COMPLETION_INDEX with WORLD_SIZE); else one rank. MASTER_ADDR and
// MASTER_PORT are read in every case; Slurm has a default for both: the first
// host of the step and 20000 + job id % 20000. INVALID_ARGUMENT: a set that is
// incomplete or not numeric, or several ranks without MASTER_PORT.
absl::StatusOr<RankInfo> DiscoverRank(
    const EnvironmentReader& read = ReadEnvironment);

}  // namespace dice

#endif  // DICE_COMMON_PARALLEL_RANK_H_
