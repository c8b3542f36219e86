// Rollouts as an actor would push them.
#ifndef DICE_TESTS_LEARNER_ROLLOUTS_H_
#define DICE_TESTS_LEARNER_ROLLOUTS_H_

#include <vector>

#include "proto/rollout.pb.h"

namespace dice {

// `n` rollouts of three sampled tokens each, without verdicts.
inline std::vector<Rollout> Rollouts(int n, int64_t version = 0) {
  std::vector<Rollout> out(n);
  for (int i = 0; i < n; ++i) {
    out[i].set_sample_index(i);
    Response* r = out[i].mutable_response();
    for (int k = 0; k < 3; ++k) {
      r->add_token_ids(k);
      r->add_steps(k + 1);
      r->add_logprobs(-1);
      r->add_entropies(1);
    }
    r->set_num_trained(3);
    r->mutable_identity()->set_version(version);
  }
  return out;
}

inline Verdict MakeVerdict(Outcome outcome, double speedup = 0) {
  Verdict v;
  v.set_outcome(outcome);
  v.set_blame(BLAME_CANDIDATE);
  v.set_stage(outcome == COMPILE_ERROR ? STAGE_COMPILE : STAGE_TIMING);
  v.set_speedup(speedup);
  v.set_speedup_lo(speedup * 0.95);
  v.set_speedup_hi(speedup * 1.05);
  return v;
}

}  // namespace dice

#endif  // DICE_TESTS_LEARNER_ROLLOUTS_H_
