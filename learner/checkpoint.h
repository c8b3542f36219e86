// Checkpoints on disk: run_dir/checkpoints/step_NNNNNN/ with
//
//   config.json model.safetensors   a model folder as any HF tool reads it
//   optimizer.safetensors           fp32 masters and moments
//   reference.safetensors           only with a frozen reference policy
//   state.json                      TrainState
//   manifest.json                   bytes and SHA-256 of each, written last
//
// The folder is made under another name and renamed. It counts only when the
// manifest is there and every part matches it, so that a crash at any byte
// leaves the older checkpoint in force.
#ifndef DICE_LEARNER_CHECKPOINT_H_
#define DICE_LEARNER_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/train_state.pb.h"

namespace dice {

struct Checkpoint {
  std::string model_config;  // HF config.json
  std::string weights;       // safetensors
  std::string optimizer;     // safetensors
  std::string reference;     // safetensors; empty: none
  TrainState state;
};

// Writes checkpoint `state.step` and removes all but the newest `keep` complete
// ones. Returns its folder. RESOURCE_EXHAUSTED: the disk is full (nothing that
// was there is lost).
absl::StatusOr<std::string> SaveCheckpoint(const std::string& run_dir,
                                           const Checkpoint& checkpoint,
                                           int keep);

// The newest complete checkpoint; torn ones are skipped with a warning.
// NOT_FOUND: there is none.
absl::StatusOr<Checkpoint> LoadLatestCheckpoint(const std::string& run_dir);

// Folders of run_dir/checkpoints, oldest first, complete or not.
std::vector<std::string> ListCheckpoints(const std::string& run_dir);

}  // namespace dice

#endif  // DICE_LEARNER_CHECKPOINT_H_
