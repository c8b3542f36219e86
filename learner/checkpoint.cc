#include "learner/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kManifest[] = "manifest.json";

std::string CheckpointRoot(const std::string& run_dir) {
  return JoinPath(run_dir, "checkpoints");
}

absl::StatusOr<std::string> StateToJson(const TrainState& state) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string out;
  const auto status =
      google::protobuf::util::MessageToJsonString(state, &out, options);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return out;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("renaming ", from, " to ", to, ": ", error.message()));
}

// Makes renames inside `dir` durable before older checkpoints go.
void SyncFolder(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

void Remove(const std::string& dir) {
  std::error_code error;
  fs::remove_all(dir, error);
  if (error) DICE_LOG(kWarning) << "removing " << dir << ": " << error.message();
}

// The content of one part, checked against the manifest.
absl::StatusOr<std::string> ReadPart(const std::string& dir,
                                     const std::string& name,
                                     const json& manifest) {
  const auto it = manifest.find(name);
  if (it == manifest.end()) {
    return absl::DataLossError(absl::StrCat("the manifest lacks ", name));
  }
  DICE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(JoinPath(dir, name)));
  if (bytes.size() != it->value("bytes", uint64_t{0}) ||
      Sha256Hex(bytes) != it->value("sha256", "")) {
    return absl::DataLossError(
        absl::StrCat(name, " does not match the manifest"));
  }
  return bytes;
}

absl::StatusOr<Checkpoint> Load(const std::string& dir) {
  DICE_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(JoinPath(dir, kManifest)));
  const json manifest = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("files") ||
      !manifest["files"].is_object()) {
    return absl::DataLossError("the manifest is not one");
  }
  const json& files = manifest["files"];
  Checkpoint out;
  std::string state;
  const std::vector<std::pair<const char*, std::string*>> parts = {
      {"config.json", &out.model_config},
      {"model.safetensors", &out.weights},
      {"optimizer.safetensors", &out.optimizer},
      {"state.json", &state}};
  for (const auto& [name, content] : parts) {
    DICE_ASSIGN_OR_RETURN(*content, ReadPart(dir, name, files));
  }
  if (files.contains("reference.safetensors")) {
    DICE_ASSIGN_OR_RETURN(out.reference,
                          ReadPart(dir, "reference.safetensors", files));
  }
  const auto status =
      google::protobuf::util::JsonStringToMessage(state, &out.state);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat("state.json: ", status.ToString()));
  }
  return out;
}

// Removes all but the newest `keep`; older torn ones go with them.
void Prune(const std::string& run_dir, int keep) {
  const auto all = ListCheckpoints(run_dir);
  int complete = 0;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    std::error_code error;
    if (complete >= keep) {
      Remove(*it);
    } else if (fs::exists(JoinPath(*it, kManifest), error)) {
      ++complete;
    }
  }
}

}  // namespace

std::vector<std::string> ListCheckpoints(const std::string& run_dir) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(CheckpointRoot(run_dir), error)) {
    const std::string name = entry.path().filename();
    int64_t step = 0;
    if (absl::StartsWith(name, "step_") &&
        absl::SimpleAtoi(name.substr(5), &step)) {
      found.emplace_back(step, entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (auto& [step, path] : found) out.push_back(std::move(path));
  return out;
}

absl::StatusOr<std::string> SaveCheckpoint(const std::string& run_dir,
                                           const Checkpoint& c, int keep) {
  const std::string name = absl::StrFormat("step_%06d", c.state.step());
  const std::string dir = JoinPath(CheckpointRoot(run_dir), name);
  const std::string making = JoinPath(CheckpointRoot(run_dir), "making." + name);
  Remove(making);
  DICE_RETURN_IF_ERROR(MakeDirs(making));
  DICE_ASSIGN_OR_RETURN(const std::string state, StateToJson(c.state));
  json manifest = {{"format", 1}, {"step", c.state.step()}};
  const std::vector<std::pair<const char*, const std::string*>> parts = {
      {"config.json", &c.model_config},
      {"model.safetensors", &c.weights},
      {"optimizer.safetensors", &c.optimizer},
      {"reference.safetensors", &c.reference},
      {"state.json", &state}};
  for (const auto& [part, content] : parts) {
    if (content->empty()) continue;
    DICE_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(making, part), *content));
    manifest["files"][part] = {{"bytes", content->size()},
                               {"sha256", Sha256Hex(*content)}};
  }
  DICE_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(making, kManifest), manifest.dump(2)));
  // A step that is written again (after a resume) replaces the older one.
  Remove(dir);
  DICE_RETURN_IF_ERROR(Rename(making, dir));
  SyncFolder(CheckpointRoot(run_dir));
  Prune(run_dir, std::max(1, keep));
  return dir;
}

absl::StatusOr<Checkpoint> LoadLatestCheckpoint(const std::string& run_dir) {
  const auto all = ListCheckpoints(run_dir);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    auto checkpoint = Load(*it);
    if (checkpoint.ok()) {
      DICE_LOG(kInfo) << "resuming from " << *it;
      return checkpoint;
    }
    DICE_LOG(kWarning) << "skipping " << *it << ": " << checkpoint.status();
  }
  return absl::NotFoundError(
      absl::StrCat("no complete checkpoint below ", CheckpointRoot(run_dir)));
}

}  // namespace dice
