#include "learner/group_batch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "learner/reward.h"

namespace dice {
namespace {

std::vector<std::optional<double>> Rewards(const Reward& config,
                                           const CompletedGroup& group) {
  std::vector<std::optional<double>> out;
  for (const Rollout& r : group.rollouts) {
    out.push_back(ComputeReward(config, r));
  }
  return out;
}

bool Differ(const std::vector<std::optional<double>>& rewards) {
  std::optional<double> first;
  for (const auto& r : rewards) {
    if (!r.has_value()) continue;
    if (first.has_value() && std::abs(*r - *first) > 1e-9) return true;
    first = first.has_value() ? first : r;
  }
  return false;
}

TrainBatchSequence ToTrain(const Response& r, double advantage) {
  TrainBatchSequence out;
  *out.mutable_tokens() = r.token_ids();
  *out.mutable_steps() = r.steps();
  *out.mutable_behavior_logprobs() = r.logprobs();
  out.set_num_trained(r.num_trained());
  out.set_advantage(static_cast<float>(advantage));
  return out;
}

// Running sums behind GroupStats.
class Tally {
 public:
  void Add(const Rollout& r, std::optional<double> reward, int64_t version) {
    ++stats_.samples;
    const Response& response = r.response();
    for (int i = 0; i < response.num_trained(); ++i) {
      stats_.tokens += response.steps(i) > 0;
    }
    if (response.token_ids_size() > 0) {
      staleness_ += static_cast<double>(
          std::max<int64_t>(0, version - response.identity().version()));
      ++responses_;
    }
    if (!r.has_verdict()) {
      ++stats_.infra_errors;
      return;
    }
    ++stats_.judge_calls;
    stats_.cache_hits += r.verdict().cached();
    if (!reward.has_value()) return;
    ++rewarded_;
    reward_ += *reward;
    best_ = std::max(best_, *reward);
    compiled_ += Compiled(r.verdict());
    deceptive_ += r.verdict().outcome() == DECEPTIVE;
    if (!Correct(r.verdict())) return;
    ++correct_;
    const double speedup = r.verdict().speedup();
    fast_ += speedup > 1;
    if (speedup <= 0) return;
    log_speedup_ += std::log(speedup);
    speedup_best_ = std::max(speedup_best_, speedup);
    ++timed_;
  }
  void AddLost(const Lease& lease) {
    stats_.infra_errors += lease.num_samples();
  }

  GroupStats Finish() const {
    GroupStats out = stats_;
    if (responses_ > 0) out.staleness_mean = staleness_ / responses_;
    if (timed_ > 0) {
      out.speedup_mean = std::exp(log_speedup_ / timed_);
      out.speedup_best = speedup_best_;
    }
    if (rewarded_ == 0) return out;
    out.reward_mean = reward_ / rewarded_;
    out.reward_best = best_;
    out.compiled = compiled_ / rewarded_;
    out.correct = correct_ / rewarded_;
    out.deceptive = deceptive_ / rewarded_;
    out.fast_1 = fast_ / rewarded_;
    return out;
  }

 private:
  GroupStats stats_;
  double rewarded_ = 0, responses_ = 0, timed_ = 0;
  double reward_ = 0, best_ = -1e300, staleness_ = 0;
  double compiled_ = 0, correct_ = 0, deceptive_ = 0, fast_ = 0;
  double log_speedup_ = 0, speedup_best_ = 0;
};

}  // namespace

bool HasSignal(const CompletedGroup& group, const Reward& reward) {
  return Differ(Rewards(reward, group));
}

GroupBatch MakeGroupBatch(const RlStage& stage, int64_t version,
                          std::vector<CompletedGroup>& groups) {
  GroupBatch out;
  out.batch.set_kind(TrainBatch::POLICY);
  Tally tally;
  int64_t kept = 0, flat = 0;
  for (CompletedGroup& group : groups) {
    if (group.lost) {
      tally.AddLost(group.lease);
      continue;
    }
    const auto rewards = Rewards(stage.reward(), group);
    const auto advantages =
        ComputeAdvantages(rewards, stage.loss().advantage(),
                          stage.loss().negative_advantage_scale());
    const bool signal = Differ(rewards);
    flat += !signal;
    TrainBatchGroup trained;
    for (size_t i = 0; i < group.rollouts.size(); ++i) {
      Rollout& r = group.rollouts[i];
      tally.Add(r, rewards[i], version);
      if (!rewards[i].has_value()) continue;
      r.set_reward(*rewards[i]);
      r.set_advantage(advantages[i]);
      if (trained.prompt().empty()) *trained.mutable_prompt() = r.prompt_ids();
      *trained.add_responses() = ToTrain(r.response(), advantages[i]);
    }
    const bool keep = signal || stage.loss().zero_variance() == KEEP;
    if (!keep || trained.responses_size() == 0) continue;
    ++kept;
    *out.batch.add_groups() = std::move(trained);
  }
  out.stats = tally.Finish();
  out.stats.groups_kept = kept;
  out.stats.groups_zero_variance = flat;
  return out;
}

GroupStats DescribeGroups(const Reward& reward, int64_t version,
                          const std::vector<CompletedGroup>& groups) {
  Tally tally;
  for (const CompletedGroup& group : groups) {
    if (group.lost) tally.AddLost(group.lease);
    for (const Rollout& r : group.rollouts) {
      tally.Add(r, ComputeReward(reward, r), version);
    }
  }
  return tally.Finish();
}

}  // namespace dice
