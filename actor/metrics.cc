#include "actor/metrics.h"

namespace dice {

ActorMetrics::ActorMetrics(MetricRegistry& r)
    : leases(r.AddCounter("dice_actor_leases_total", "Leases taken")),
      responses(r.AddCounters("dice_actor_responses_total",
                              "Responses finished, by what stopped them",
                              "stop", {"eos", "max_tokens", "stop_string"})),
      tokens(r.AddCounter("dice_actor_tokens_total",
                          "Tokens sampled, forced ones not counted")),
      denoise_steps(r.AddCounter("dice_actor_denoise_steps_total",
                                 "Denoise steps, summed over responses")),
      evaluations(r.AddCounters("dice_actor_evaluations_total",
                                "Candidates, by what became of them", "result",
                                {"verdict", "format_error", "infra_error"})),
      groups(r.AddCounters("dice_actor_groups_total",
                           "Groups, by what became of them", "fate",
                           {"accepted", "refused", "lost"})),
      rpc_retries(r.AddCounters("dice_actor_rpc_retries_total",
                                "Calls to the learner that failed and are "
                                "made again",
                                "call", {"lease", "renew", "push"})),
      weights_failures(r.AddCounter("dice_actor_weights_failures_total",
                                    "Fetches of weights that failed")),
      weights_seconds(r.AddHistogram("dice_actor_weights_seconds",
                                     "Time to fetch and verify weights",
                                     SecondsBounds())),
      verdict_seconds(r.AddHistogram("dice_actor_verdict_seconds",
                                     "Time from sending a candidate to its "
                                     "answer",
                                     SecondsBounds())),
      group_seconds(r.AddHistogram("dice_actor_group_seconds",
                                   "Time from a lease to its whole group",
                                   SecondsBounds())),
      policy_version(r.AddGauge("dice_actor_policy_version",
                                "Version of the weights that were fetched "
                                "last")),
      groups_in_flight(r.AddGauge("dice_actor_groups_in_flight",
                                  "Leased groups that are not complete")),
      responses_pending(r.AddGauge("dice_actor_responses_pending",
                                   "Responses queued or being sampled")),
      evaluations_pending(r.AddGauge("dice_actor_evaluations_pending",
                                     "Candidates without an answer")),
      pushes_pending(r.AddGauge("dice_actor_pushes_pending",
                                "Complete groups that the learner has not "
                                "answered for")) {}

}  // namespace dice
