#include "common/parallel/rank.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

struct Names {
  const char* source;
  const char* rank;
  const char* world;
  const char* local;
};
constexpr Names kSources[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK"}};

absl::StatusOr<int> Number(const EnvironmentReader& read, const char* name) {
  const auto text = read(name);
  int value = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &value) || value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a number, is '", text.value_or(""), "'"));
  }
  return value;
}

absl::Status ReadNumber(const EnvironmentReader& read, const char* name,
                        int* out) {
  if (!read(name).has_value()) return absl::OkStatus();
  DICE_ASSIGN_OR_RETURN(*out, Number(read, name));
  return absl::OkStatus();
}

// "gpu[07-09,12],login" -> "gpu07".
std::string FirstHost(const std::string& list) {
  const size_t bracket = list.find_first_of("[,");
  if (bracket == std::string::npos || list[bracket] == ',') {
    return list.substr(0, bracket);
  }
  const size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

absl::Status SlurmDefaults(const EnvironmentReader& read, RankInfo* info) {
  if (!read("MASTER_ADDR").has_value()) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (const auto list = read(name)) {
        info->master_address = FirstHost(*list);
        break;
      }
    }
  }
  if (!read("MASTER_PORT").has_value() && read("SLURM_JOB_ID").has_value()) {
    DICE_ASSIGN_OR_RETURN(const int job, Number(read, "SLURM_JOB_ID"));
    info->master_port = 20000 + job % 20000;
  }
  return ReadNumber(read, "SLURM_RESTART_COUNT", &info->attempt);
}

absl::Status ReadSource(const EnvironmentReader& read, const Names& n,
                        RankInfo* info) {
  info->source = n.source;
  DICE_ASSIGN_OR_RETURN(info->rank, Number(read, n.rank));
  DICE_ASSIGN_OR_RETURN(info->world_size, Number(read, n.world));
  DICE_RETURN_IF_ERROR(ReadNumber(read, n.local, &info->local_rank));
  if (info->source == "slurm") return SlurmDefaults(read, info);
  info->agent_store = read("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return ReadNumber(read, "TORCHELASTIC_RESTART_COUNT", &info->attempt);
}

}  // namespace

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

absl::StatusOr<RankInfo> DiscoverRank(const EnvironmentReader& read) {
  RankInfo info;
  if (const auto a = read("MASTER_ADDR")) info.master_address = *a;
  DICE_RETURN_IF_ERROR(ReadNumber(read, "MASTER_PORT", &info.master_port));
  for (const Names& n : kSources) {
    if (!read(n.rank).has_value()) continue;
    DICE_RETURN_IF_ERROR(ReadSource(read, n, &info)) << n.source;
    break;
  }
  if (info.rank >= info.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", info.rank, " of ", info.world_size, " (from ",
                     info.source, ")"));
  }
  if (info.world_size > 1 && info.master_port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(info.world_size, " ranks need MASTER_PORT"));
  }
  return info;
}

}  // namespace dice
