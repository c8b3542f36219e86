// Supervised batches from the solutions that ship with the tasks: which sample
// stands in which batch, what of it is a target, and what is masked. Every batch
// is a function of (seed, stage, step), so that a resumed run continues it.
// Immutable after Create; thread-safe.
#ifndef DICE_LEARNER_SFT_DATA_H_
#define DICE_LEARNER_SFT_DATA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "common/text/tokenizer.h"
#include "proto/config.pb.h"
#include "proto/task.pb.h"
#include "proto/train_batch.pb.h"

namespace dice {

class SftData {
 public:
  struct Options {
    SftStage stage;
    int64_t block_size = 4;
    int32_t end_id = 0;   // appended to every target
    int32_t pad_id = 0;   // fills the last block after it; labelled too
    StreamKey key{0};
  };
  // Tokenises every solution once, by MakeSftSample. Quarantined tasks are left
  // out. INVALID_ARGUMENT: no task has a solution.
  static absl::StatusOr<std::unique_ptr<SftData>> Create(
      const Options& options, const std::vector<Task>& tasks,
      const Tokenizer& tokenizer);

  // The batch of `step`, kind SFT. Per sample: a task of the epoch's shuffled
  // order; a solution ("good" with probability good_fraction, when the task has
  // both kinds); whole with probability whole_fraction, else behind its forced
  // prefix, which is no target; a masking rate t ~ U[min, max), stratified over the batch (or one per block), each target
  // token masked with p = (1 - 1e-3) t + 1e-3 and weighted 1 / p. The
  // normaliser counts all targets, masked or not.
  TrainBatch MakeBatch(int64_t step) const;

  int64_t num_solutions() const { return num_solutions_; }

 private:
  struct Sample {
    std::vector<int32_t> prompt;
    std::vector<int32_t> response;
    int64_t known = 0;  // tokens of the response without loss
  };
  struct Solutions {
    std::vector<Sample> cut, whole;   // the same solution at the same index
    std::vector<int> good, other;     // indices by quality
  };
  explicit SftData(const Options& options) : options_(options) {}
  Sample Tokenize(const Task& task, const Solution& solution, bool whole,
                  const Tokenizer& tokenizer) const;
  const Sample& Choose(const Solutions& solutions, Rng& rng) const;
  void Mask(const Sample& sample, double t, Rng& rng,
            TrainBatchSequence* out) const;

  const Options options_;
  std::vector<Solutions> tasks_;
  int64_t num_solutions_ = 0;
};

}  // namespace dice

#endif  // DICE_LEARNER_SFT_DATA_H_
