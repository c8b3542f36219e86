// Every metric of the actor; docs/metrics.md lists them.
#ifndef DICE_ACTOR_METRICS_H_
#define DICE_ACTOR_METRICS_H_

#include "common/metrics/registry.h"

namespace dice {

struct ActorMetrics {
  explicit ActorMetrics(MetricRegistry& registry);

  Counter& leases;
  Labelled<Counter> responses;  // stop: eos, max_tokens, stop_string
  Counter& tokens;              // sampled ones
  Counter& denoise_steps;
  Labelled<Counter> evaluations;  // result: verdict, format_error, infra_error
  Labelled<Counter> groups;       // fate: accepted, refused, lost
  Labelled<Counter> rpc_retries;  // call: lease, renew, push
  Counter& weights_failures;
  Histogram& weights_seconds;
  Histogram& verdict_seconds;
  Histogram& group_seconds;
  Gauge& policy_version;
  Gauge& groups_in_flight;
  Gauge& responses_pending;
  Gauge& evaluations_pending;
  Gauge& pushes_pending;
};

}  // namespace dice

#endif  // DICE_ACTOR_METRICS_H_
