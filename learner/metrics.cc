#include "learner/metrics.h"

#include <string>
#include <vector>

namespace dice {
namespace {

const std::vector<std::string>& Stages() {
  static const auto& stages =
      *new std::vector<std::string>{"sft", "infill", "end_to_end"};
  return stages;
}

}  // namespace

LearnerMetrics::LearnerMetrics(MetricRegistry& r)
    : steps(r.AddCounters("dice_learner_steps_total", "Learner steps done.",
                          "stage", Stages())),
      reward_mean(r.AddGauges("dice_learner_reward_mean",
                              "Mean reward of the last step.", "stage",
                              Stages())),
      compiled(r.AddGauges("dice_learner_compiled_ratio",
                           "Share of candidates that compiled, last step.",
                           "stage", Stages())),
      correct(r.AddGauges("dice_learner_correct_ratio",
                          "Share of correct candidates, last step.", "stage",
                          Stages())),
      fast_1(r.AddGauges("dice_learner_fast_1_ratio",
                         "Share correct and faster than the baseline.",
                         "stage", Stages())),
      speedup_mean(r.AddGauges("dice_learner_speedup_mean_ratio",
                               "Geometric mean speedup of correct candidates.",
                               "stage", Stages())),
      policy_version(r.AddGauge("dice_learner_policy_version",
                                "Version of the published policy.")),
      loss(r.AddGauge("dice_learner_loss", "Loss of the last step.")),
      kl(r.AddGauge("dice_learner_kl_nats",
                    "k3 estimate of KL to the behaviour policy, per token.")),
      clip_fraction(r.AddGauge("dice_learner_clip_ratio",
                               "Share of tokens with a clipped ratio.")),
      entropy(r.AddGauge("dice_learner_entropy_nats",
                         "Policy entropy in nats per token.")),
      grad_norm(r.AddGauge("dice_learner_grad_norm",
                           "Gradient norm before clipping.")),
      staleness(r.AddGauge("dice_learner_staleness_versions",
                           "Mean policy versions between sampling and use.")),
      outstanding_groups(
          r.AddGauge("dice_learner_outstanding_groups",
                     "Groups offered, leased or waiting to be trained on.")),
      tokens(r.AddCounter("dice_learner_sampled_tokens_total",
                          "Sampled tokens trained on.")),
      samples(r.AddCounter("dice_learner_samples_total",
                           "Rollouts that came back.")),
      infra_errors(r.AddCounter("dice_learner_infra_errors_total",
                                "Samples lost to infrastructure.")),
      groups(r.AddCounters("dice_learner_groups_total",
                           "Groups by what became of them.", "result",
                           {"kept", "zero_variance"})),
      pushes(r.AddCounters("dice_learner_pushes_total",
                           "Pushed groups by answer.", "result",
                           {"accepted", "expired", "malformed",
                            "unknown_identity", "stale"})),
      leases(r.AddCounter("dice_learner_leases_total", "Leases handed out.")),
      expired_leases(r.AddCounter("dice_learner_expired_leases_total",
                                  "Leases that ran out unrenewed.")),
      weight_bytes(r.AddCounter("dice_learner_weight_bytes_total",
                                "Weight bytes sent to actors.")),
      checkpoints(r.AddCounter("dice_learner_checkpoints_total",
                               "Checkpoints written.")),
      phase_seconds(r.AddHistograms(
          "dice_learner_phase_seconds", "Duration of a step's phases.",
          "phase", {"wait", "update", "publish", "checkpoint"},
          SecondsBounds())) {}

}  // namespace dice
