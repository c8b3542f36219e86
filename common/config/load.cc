#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/overrides.h"
#include "common/config/textproto.h"
#include "google/protobuf/text_format.h"

namespace dice {
namespace fs = std::filesystem;
namespace {

void Resolve(const fs::path& dir, std::string* path) {
  if (path->empty() || fs::path(*path).is_absolute()) return;
  std::error_code ec;
  const bool here = !fs::exists(dir / *path, ec) && fs::exists(*path, ec);
  *path =
      fs::absolute(here ? fs::path(*path) : dir / *path, ec).lexically_normal();
}

}  // namespace

void ResolvePaths(const std::string& config_dir, Config* config) {
  const fs::path dir(config_dir);
  Resolve(dir, config->mutable_model()->mutable_config_json());
  Resolve(dir, config->mutable_model()->mutable_checkpoint_dir());
  Resolve(dir, config->mutable_model()->mutable_tokenizer_dir());
  Resolve(dir, config->mutable_tasks()->mutable_train_path());
  Resolve(dir, config->mutable_tasks()->mutable_heldout_path());
  // An output: where the process runs.
  Resolve(fs::current_path(), config->mutable_judge()->mutable_cache_path());
}

absl::StatusOr<Config> LoadConfig(const std::string& path,
                                  const std::vector<std::string>& sets) {
  DICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path), "config");
  Config config;
  std::vector<std::string> problems = ParseTextproto(text, path, &config);
  for (const std::string& set : sets) {
    if (absl::Status s = ApplyOverride(set, &config); !s.ok()) {
      problems.emplace_back(s.message());
    }
  }
  ResolvePaths(fs::absolute(path).parent_path(), &config);
  FillDefaults(&config);
  for (const std::string& violation : Violations(config)) {
    problems.push_back(absl::StrCat(path, ": ", violation));
  }
  if (problems.empty()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat("the config has ", problems.size(),
                   problems.size() == 1 ? " problem:\n  " : " problems:\n  ",
                   absl::StrJoin(problems, "\n  ")));
}

std::string PrintConfig(const Config& config) {
  google::protobuf::TextFormat::Printer printer;
  std::string text;
  printer.PrintToString(config, &text);
  return absl::StrCat(
      "# Effective configuration: every default filled, paths absolute.\n"
      "# proto-file: proto/config.proto\n# proto-message: dice.Config\n\n",
      text);
}

}  // namespace dice
