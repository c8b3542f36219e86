// Every metric of the learner (rank 0); docs/metrics.md lists them.
#ifndef DICE_LEARNER_METRICS_H_
#define DICE_LEARNER_METRICS_H_

#include "common/metrics/registry.h"

namespace dice {

struct LearnerMetrics {
  explicit LearnerMetrics(MetricRegistry& registry);

  // By stage: sft, infill, end_to_end.
  Labelled<Counter> steps;
  Labelled<Gauge> reward_mean;
  Labelled<Gauge> compiled;
  Labelled<Gauge> correct;
  Labelled<Gauge> fast_1;
  Labelled<Gauge> speedup_mean;

  Gauge& policy_version;
  Gauge& loss;
  Gauge& kl;
  Gauge& clip_fraction;
  Gauge& entropy;
  Gauge& grad_norm;
  Gauge& staleness;
  Gauge& outstanding_groups;

  Counter& tokens;
  Counter& samples;
  Counter& infra_errors;
  Labelled<Counter> groups;   // kept | zero_variance
  Labelled<Counter> pushes;   // PushReason, spaces as _
  Counter& leases;            // handed out
  Counter& expired_leases;
  Counter& weight_bytes;
  Counter& checkpoints;
  // wait | update | publish | checkpoint
  Labelled<Histogram> phase_seconds;
};

}  // namespace dice

#endif  // DICE_LEARNER_METRICS_H_
