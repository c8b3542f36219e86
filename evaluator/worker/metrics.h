// Every metric of a worker; docs/metrics.md lists them.
#ifndef DICE_EVALUATOR_WORKER_METRICS_H_
#define DICE_EVALUATOR_WORKER_METRICS_H_

#include "common/metrics/registry.h"

namespace dice {

struct WorkerMetrics {
  explicit WorkerMetrics(MetricRegistry& r)
      : verdicts(r.AddCounter("dice_worker_verdicts_total",
                              "Evaluations that ended in a verdict")),
        infra_errors(r.AddCounter("dice_worker_infra_errors_total",
                                  "Evaluations that failed by our fault")),
        connections(r.AddCounter("dice_worker_connections_total",
                                 "Streams opened to the pool")),
        slots(r.AddGauge("dice_worker_slots", "Evaluations it can hold")),
        held(r.AddGauge("dice_worker_held_evaluations",
                        "Evaluations it holds, running or about to")) {}
  Counter& verdicts;
  Counter& infra_errors;
  Counter& connections;
  Gauge& slots;
  Gauge& held;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_METRICS_H_
