#include "actor/group.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/tasks/tasks.h"

namespace dice {

absl::StatusOr<SamplingJob> MakeJob(const Lease& lease,
                                    const Tokenizer& tokenizer,
                                    int64_t vocab_size) {
  if (lease.num_samples() <= 0) {
    return absl::InvalidArgumentError("a lease without samples");
  }
  if (lease.mode() == RESPONSE_MODE_UNSPECIFIED) {
    return absl::InvalidArgumentError("a lease without a response mode");
  }
  SamplingJob job;
  job.prompt = tokenizer.Encode(MakePrompt(lease.task(), lease.mode()));
  job.forced = tokenizer.Encode(ForcedPrefix(lease.task(), lease.mode()));
  for (const auto* ids : {&job.prompt, &job.forced}) {
    for (int32_t id : *ids) {
      if (id >= vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "token ", id, " of the prompt is not in the model's vocabulary of ",
            vocab_size));
      }
    }
  }
  for (int i = 0; i < lease.num_samples(); ++i) {
    job.streams.push_back(
        StreamKey(lease.run_seed())
            .Derive({static_cast<uint64_t>(lease.stage()),
                     static_cast<uint64_t>(lease.task_ordinal()),
                     static_cast<uint64_t>(lease.first_sample() + i)}));
  }
  job.sampling = lease.sampling();
  job.min_version = lease.min_version();
  return job;
}

Group MakeGroup(const Lease& lease, const SamplingJob& job) {
  Group group;
  group.task = std::make_shared<const Task>(lease.task());
  group.task_digest = TaskDigest(lease.task());
  group.lease = lease;
  group.lease.clear_task();
  group.unsampled = group.undecided = lease.num_samples();
  group.rollouts.resize(lease.num_samples());
  group.evaluation_ids.resize(lease.num_samples());
  for (int i = 0; i < lease.num_samples(); ++i) {
    Rollout& rollout = group.rollouts[i];
    rollout.set_task_id(lease.task().id());
    rollout.set_lease_id(lease.lease_id());
    rollout.set_sample_index(lease.first_sample() + i);
    rollout.mutable_prompt_ids()->Assign(job.prompt.begin(), job.prompt.end());
  }
  return group;
}

std::string ResponseText(const Response& response, const Tokenizer& tokenizer) {
  const int stop_token = response.stop_reason() == "eos" ? 1 : 0;
  const int n = std::clamp(response.num_trained() - stop_token, 0,
                           response.token_ids_size());
  return SanitizeUtf8(tokenizer.Decode(
      std::span<const int32_t>(response.token_ids().data(), n)));
}

Verdict FormatError(absl::string_view reason) {
  Verdict verdict;
  verdict.set_outcome(FORMAT_ERROR);
  verdict.set_blame(BLAME_CANDIDATE);
  verdict.set_stage(STAGE_PARSE);
  verdict.set_message(std::string(reason));
  return verdict;
}

}  // namespace dice
