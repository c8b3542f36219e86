// From step maps to packed rows (algorithm: TraceRL, arXiv 2509.06949, section
// 4; DICE, arXiv 2602.11715, section 3).
//
// A response gives rounds: in round r every block contributes its r-th distinct
// denoise step. Loss positions are the tokens committed at that step; tokens
// committed at that or a later step of the block are MASK in the noisy copy.
// Every sampled token up to and including the stop is a loss position exactly
// once. A noisy row sees the prompt, the clean blocks before its own, and its
// own noisy block.
//
// BuildSharedRows computes only what a loss depends on, and that once: prompt
// blocks once for a group; of the responses, the live (block, round) pairs and
// the clean blocks before the last live one; and a block that several responses
// of a group share (same tokens after the same tokens) for all of them. Samples
// of one prompt begin alike and are often equal, so this is a large part of the
// rows. BuildPlainRows is the formulation of the reference implementation
// (every round a whole padded noisy copy), kept as the oracle of the tests.
#ifndef DICE_LEARNER_ROWS_H_
#define DICE_LEARNER_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/model/diffusion_lm.h"

namespace dice {

// One response to train on, in absolute blocks of the sampler.
struct TrainSequence {
  std::vector<int32_t> tokens;  // response, whole last block included
  std::vector<int32_t> steps;   // per token; < 1 = known, never a loss position
  int64_t num_trained = 0;      // tokens after the stop carry no loss
};
struct TrainGroup {
  std::vector<int32_t> prompt;
  std::vector<TrainSequence> responses;
};

// A loss position: `row` of the layout predicts `target`, which is token
// `token` of response `response` of group `group`. Rows are shared: several
// positions may name one row.
struct LossPosition {
  int64_t row = 0;
  int32_t target = 0;
  int32_t group = 0;
  int32_t response = 0;
  int32_t token = 0;
};

struct TrainRows {
  RowLayout layout;
  std::vector<LossPosition> losses;  // ordered by group and response
};

TrainRows BuildSharedRows(const std::vector<TrainGroup>& groups,
                          const ModelConfig& config);
TrainRows BuildPlainRows(const std::vector<TrainGroup>& groups,
                         const ModelConfig& config);

// Loss positions of one sequence, without building anything.
int64_t CountLossTokens(const TrainSequence& sequence);
// Rows that each response adds to BuildSharedRows, given those before it; the
// first one carries the prompt's.
std::vector<int64_t> RowCosts(const TrainGroup& group,
                              const ModelConfig& config);

}  // namespace dice

#endif  // DICE_LEARNER_ROWS_H_
