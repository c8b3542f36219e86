// The G samples of one lease on their way through the actor:
// lease -> prompt -> responses -> candidates -> verdicts -> PushGroup.
#ifndef DICE_ACTOR_GROUP_H_
#define DICE_ACTOR_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "common/text/tokenizer.h"
#include "proto/learner_service.pb.h"

namespace dice {

// What the engine needs to sample one group.
struct SamplingJob {
  uint64_t group = 0;  // the owner's number for it
  std::vector<int32_t> prompt;
  std::vector<int32_t> forced;     // start of every response
  std::vector<StreamKey> streams;  // one per sample
  SamplingConfig sampling;
  int64_t min_version = 0;
};

// Not thread-safe: the owner guards it.
struct Group {
  Lease lease;  // without its task
  std::shared_ptr<const Task> task;
  std::string task_digest;
  std::vector<Rollout> rollouts;         // by sample
  std::vector<uint64_t> evaluation_ids;  // 0 = not in flight
  int unsampled = 0;                     // responses that did not arrive yet
  int undecided = 0;                     // rollouts without verdict or loss
  bool progressed = false;               // since the last renewal
  absl::Time leased_at;
};

// Tokenises prompt and forced prefix, each by itself, and derives the random
// streams. INVALID_ARGUMENT: no samples, a mode that is not set, or ids that
// the model does not have.
absl::StatusOr<SamplingJob> MakeJob(const Lease& lease,
                                    const Tokenizer& tokenizer,
                                    int64_t vocab_size);

Group MakeGroup(const Lease& lease, const SamplingJob& job);

// The decoded response up to its stop; the token that stopped it is not part of
// the text. Valid UTF-8.
std::string ResponseText(const Response& response, const Tokenizer& tokenizer);

// The verdict of a response that no candidate could be made from.
Verdict FormatError(absl::string_view reason);

}  // namespace dice

#endif  // DICE_ACTOR_GROUP_H_
