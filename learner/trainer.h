// One rank's part of an update: its share of the batch, gradients summed over
// ranks, the same AdamW step everywhere. Rank 0 calls Run with a batch, the
// others Serve; all move in lockstep. Not thread-safe.
#ifndef DICE_LEARNER_TRAINER_H_
#define DICE_LEARNER_TRAINER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/diffusion_lm.h"
#include "common/parallel/process_group.h"
#include "learner/loss.h"
#include "learner/optimizer.h"
#include "proto/train_batch.pb.h"

namespace dice {

struct UpdateStats {
  double loss = 0;
  double grad_norm = 0;      // before clipping
  double kl = 0;             // k3 to the behaviour policy, mean over tokens
  double clip_fraction = 0;
  double entropy = 0;        // nats, mean over loss tokens; POLICY only
  int64_t loss_tokens = 0;   // over all ranks
};

// Groups of rank `rank`: a deterministic split of the batch's rows, at the
// border of a response; a group that is divided repeats its prompt.
std::vector<TrainBatchGroup> ShareOfRank(const TrainBatch& batch, int rank,
                                         int size, const ModelConfig& config);

class Trainer {
 public:
  struct Options {
    // Rows of one forward and backward; bounds activation memory.
    int64_t max_rows = 4096;
  };
  // Borrowed: `lm` and `group` outlive this.
  Trainer(DiffusionLm& lm, ProcessGroup& group, const Options& options);
  Trainer(DiffusionLm& lm, ProcessGroup& group)
      : Trainer(lm, group, Options()) {}

  // Rank 0: sends the batch to all ranks and takes part. INTERNAL: a gradient
  // that is not finite (nothing was changed). UNAVAILABLE: a peer is gone.
  // SYNCHRONIZE gives every rank the weights and State of this one.
  absl::StatusOr<UpdateStats> Run(const TrainBatch& batch);
  // Ranks above 0: serves batches until STOP.
  absl::Status Serve();

  // Moments, masters and the frozen reference, as safetensors bytes.
  // SetState belongs to a stage: BEGIN_STAGE comes before it. INVALID_ARGUMENT
  // when it does not fit the model.
  struct State {
    std::string optimizer;
    std::string reference;  // empty: none
  };
  absl::StatusOr<State> GetState() const;
  absl::Status SetState(const State& state);

 private:
  struct Totals;
  absl::StatusOr<UpdateStats> Apply(const TrainBatch& batch);
  absl::Status BeginStage(const TrainBatch& batch);
  absl::Status Synchronize();
  absl::Status SetReference(const std::string& weights);
  absl::StatusOr<UpdateStats> Update(const TrainBatch& batch,
                                     const std::vector<TrainBatchGroup>& share);
  // Whole responses, at most max_rows rows each unless one response has more.
  std::vector<std::vector<TrainBatchGroup>> Pieces(
      const std::vector<TrainBatchGroup>& share) const;
  // Writes the log-probabilities of the policy as it is now, before the first of
  // several minibatches moves it.
  void RecordOldLogprobs(std::vector<TrainBatchGroup>& share) const;
  // Adds the gradients of one piece to the parameters; returns its sums.
  torch::Tensor Accumulate(const TrainBatch& batch, const Totals& totals,
                           const std::vector<TrainBatchGroup>& piece) const;

  DiffusionLm& lm_;
  ProcessGroup& group_;
  const Options options_;
  AdamW optimizer_;
  std::unique_ptr<DiffusionLm> reference_;  // frozen; only for kl_to_reference
};

}  // namespace dice

#endif  // DICE_LEARNER_TRAINER_H_
