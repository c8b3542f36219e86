// Every metric of the pool's front; docs/metrics.md lists them.
#ifndef DICE_EVALUATOR_POOL_METRICS_H_
#define DICE_EVALUATOR_POOL_METRICS_H_

#include "common/metrics/registry.h"
#include "evaluator/pool/queue_types.h"

namespace dice {

// Label values of a Requeue, in order of the enum.
extern const char* const kRequeueNames[4];

struct PoolMetrics {
  explicit PoolMetrics(MetricRegistry& registry);

  // Takes over the counters of one call's effects.
  void Record(const Effects& effects);
  // Sets the gauges.
  void Record(const QueueStats& stats);

  Counter& requests;
  Counter& rejected;
  Counter& cache_hits;
  Counter& cache_misses;
  Counter& deduplicated;
  Counter& tasks_asked;
  Labelled<Counter> results;
  Labelled<Counter> requeues;
  Labelled<Counter> infra_errors;
  Labelled<Counter> late_results;
  Labelled<Histogram> stage_seconds;
  Histogram& queue_seconds;
  Histogram& evaluation_seconds;
  Counter& judge_seconds;
  Gauge& queued;
  Gauge& leased;
  Gauge& oldest_lease;
  Gauge& clients;
  Labelled<Gauge> workers;
  Labelled<Gauge> slots;
  Gauge& last_result_time;
  Counter& store_errors;
};

// Lower-case names of the outcomes a verdict may have ("compile_error").
const std::vector<std::string>& OutcomeLabels();
std::string OutcomeLabel(Outcome outcome);

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_METRICS_H_
