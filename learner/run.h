// The learner as a process: rank discovery, model, resume, server, driver.
#ifndef DICE_LEARNER_RUN_H_
#define DICE_LEARNER_RUN_H_

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "common/parallel/rank.h"
#include "learner/server.h"
#include "proto/config.pb.h"

namespace dice {

struct LearnerOptions {
  Config config;        // complete and valid
  std::string run_dir;
  bool resume = false;  // from the last complete checkpoint, if there is one
  RankInfo rank;
  LearnerServerOptions server;
};

// Trains; blocks until the run is done (OK), `stop` ended it at a checkpoint
// (CANCELLED), or it failed. INVALID_ARGUMENT and FAILED_PRECONDITION are the
// user's to mend: task files, a model that does not fit the tokenizer, a run
// folder that holds another run.
absl::Status RunLearner(const LearnerOptions& options, std::stop_token stop);

}  // namespace dice

#endif  // DICE_LEARNER_RUN_H_
