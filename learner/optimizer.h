// AdamW (Loshchilov, Hutter, arXiv 1711.05101) with fp32 master weights and
// moments, whatever the dtype of the parameters.
#ifndef DICE_LEARNER_OPTIMIZER_H_
#define DICE_LEARNER_OPTIMIZER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/model/safetensors.h"
#include "proto/config.pb.h"

namespace dice {

class AdamW {
 public:
  // `parameters` are updated in place. Defaults of `config` (0 fields) are the
  // usual ones: beta1 0.9, beta2 0.999, eps 1e-8.
  AdamW(NamedTensors parameters, const Optimizer& config);

  // Learning rate of step `step` (0-based) of `total`: linear warm-up, then
  // linear decay to lr * final_lr_fraction (constant when that is 0).
  static double LearningRate(const Optimizer& config, int64_t step,
                             int64_t total);
  // One update from `gradient`, the flat fp32 concatenation in parameter order
  // (summed over ranks already). Clips to clip_norm. Returns the norm before
  // clipping. A gradient that is not finite changes nothing and returns it.
  double Step(torch::Tensor gradient, double lr);
  // The gradients of the parameters as one flat fp32 tensor; undefined ones are
  // zero. Clears them.
  torch::Tensor TakeGradient();

  // Hyper-parameters change at a stage's start; moments are kept or reset.
  void Reset(const Optimizer& config);

  // For checkpoints: flat fp32 tensors "master", "m", "v" and "step".
  NamedTensors State() const;
  absl::Status SetState(const NamedTensors& state);  // else INVALID_ARGUMENT

 private:
  void CopyOut();
  NamedTensors parameters_;
  Optimizer config_;
  torch::Tensor master_, m_, v_;
  int64_t step_ = 0;
};

}  // namespace dice

#endif  // DICE_LEARNER_OPTIMIZER_H_
