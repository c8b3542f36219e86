// Which processes a run on one machine consists of. Pure: from a config and
// addresses to command lines.
#ifndef DICE_CLI_TRAIN_PLAN_H_
#define DICE_CLI_TRAIN_PLAN_H_

#include <string>
#include <vector>

#include "cli/supervisor.h"
#include "proto/config.pb.h"

namespace dice::cli {

// Where things are. Binaries lie as in a build folder (../learner/dice-learner)
// or beside `dice`, as in a bundle.
struct RunPlaces {
  std::string bin_dir;  // of `dice`
  std::string run_dir;
  std::string config;  // the effective one, in run_dir

  std::string Binary(const std::string& folder, const std::string& name) const;
  std::string Log(const std::string& child) const;
  std::string Ready(const std::string& child) const;
};

// `port` of each server: 0 at first, later the one it had, so that its peers
// find it again.
GroupSpec PoolGroup(const Config& config, const RunPlaces& places,
                    const std::string& port);
GroupSpec WorkerGroup(const Config& config, const RunPlaces& places, int index,
                      const std::string& pool_address);
GroupSpec ActorGroup(const Config& config, const RunPlaces& places, int index,
                     const std::string& learner_address,
                     const std::string& pool_address);
// All ranks. Attempts after the first resume from the newest checkpoint, if
// there is one; `resume` says that of the first too.
GroupSpec LearnerGroup(const Config& config, const RunPlaces& places,
                       const std::string& port, bool resume);

// True when run_dir/checkpoints holds at least one.
bool HasCheckpoint(const std::string& run_dir);
// A TCP port of 127.0.0.1 that was free just now.
int FreePort();
// The part of "host:port" after the colon.
std::string PortOf(const std::string& address);

}  // namespace dice::cli

#endif  // DICE_CLI_TRAIN_PLAN_H_
