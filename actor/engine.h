// The sampling thread: owns the model, keeps its batch full, swaps weights
// between denoise steps.
#ifndef DICE_ACTOR_ENGINE_H_
#define DICE_ACTOR_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actor/group.h"
#include "proto/rollout.pb.h"

namespace dice {

// Thread-safe. No torch types in this header: it is included next to gRPC.
class Engine {
 public:
  struct Options {
    std::string model_config;  // path of a HF config.json
    int64_t max_batch = 256;
    int threads = 1;  // of one operator
  };
  // All run on the sampling thread and must not block for long.
  struct Callbacks {
    // One response is finished.
    std::function<void(uint64_t group, int sample, Response)> on_response;
    // Called after each denoise step, and when weights were taken over.
    std::function<void()> on_progress;
    // The policy does not fit the model config: this actor is of no use.
    std::function<void(absl::Status)> on_failure;
  };

  // Weights are random until SetWeights; no job starts before it. Errors: those
  // of ModelConfig::FromJsonFile.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Options& options,
                                                        Callbacks callbacks);
  virtual ~Engine() = default;

  virtual int64_t vocab_size() const = 0;
  // Queues a job. It starts, in order of arrival among those that may start,
  // once weights of its min_version or newer are in use. INVALID_ARGUMENT: the
  // model cannot be sampled like that.
  virtual absl::Status Submit(SamplingJob job) = 0;
  // Drops what has not been delivered of a job.
  virtual void Abandon(uint64_t group) = 0;
  // Taken over before the next denoise step. What is half sampled goes on with
  // the new weights and keeps the identity of the old ones.
  virtual void SetWeights(WeightsIdentity identity,
                          std::string safetensors) = 0;
  // While not current, jobs in the batch go on, but no job starts: the learner
  // may have been replaced, and its new weights are not known yet.
  virtual void SetCurrent(bool current) = 0;
  // Responses that are queued or in the batch.
  virtual int64_t pending() const = 0;
};

}  // namespace dice

#endif  // DICE_ACTOR_ENGINE_H_
