// From a textproto file and --set overrides to a configuration that is complete
// and valid. No other code fills defaults or doubts a value. Functions here are
// pure but for reading the file; thread-safe.
#ifndef DICE_COMMON_CONFIG_CONFIG_H_
#define DICE_COMMON_CONFIG_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/config.pb.h"

namespace dice {

// Reads `path`, applies `sets` ("stages[0].steps=5", see overrides.h) in order,
// makes paths absolute, fills defaults, validates. INVALID_ARGUMENT lists every
// problem, one a line, with file:line:column where it has one; NOT_FOUND when
// the file is not there.
absl::StatusOr<Config> LoadConfig(const std::string& path,
                                  const std::vector<std::string>& sets = {});

// Sets every field that has a default and is unset. Idempotent.
void FillDefaults(Config* config);

// A relative path of an input is the one below `config_dir`, unless only the one
// below the working directory exists; afterwards all are absolute. Empty ones
// stay empty.
void ResolvePaths(const std::string& config_dir, Config* config);

// All violations of a config with its defaults filled, each as "field: why";
// empty when it may run. `check_paths` also asks whether input files exist.
std::vector<std::string> Violations(const Config& config,
                                    bool check_paths = true);

// The effective config as textproto with a comment header: LoadConfig reads it
// back to the same message.
std::string PrintConfig(const Config& config);

}  // namespace dice

#endif  // DICE_COMMON_CONFIG_CONFIG_H_
