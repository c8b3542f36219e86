#include "common/rpc/ready_file.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {

absl::Status WriteReadyFile(const std::string& path, ReadyInfo info) {
  return WriteFileAtomic(path, absl::StrCat("address=", info.address,
                                            "\nmetrics=", info.metrics_address,
                                            "\npid=", getpid(), "\n"));
}

absl::StatusOr<ReadyInfo> ReadReadyFile(const std::string& path) {
  DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ReadyInfo info;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> kv =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (kv.first == "address") info.address = kv.second;
    if (kv.first == "metrics") info.metrics_address = kv.second;
    if (kv.first == "pid" && !absl::SimpleAtoi(kv.second, &info.pid)) break;
  }
  if (info.pid > 0) return info;
  return absl::InvalidArgumentError(absl::StrCat(path, " is no ready file"));
}

}  // namespace dice
