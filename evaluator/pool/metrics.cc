#include "evaluator/pool/metrics.h"

#include "absl/strings/ascii.h"

namespace dice {

const char* const kRequeueNames[4] = {"worker_lost", "lease_expired",
                                      "infra_error", "confirm_timeout"};

const std::vector<std::string>& OutcomeLabels() {
  static const auto* labels = [] {
    auto* out = new std::vector<std::string>;
    const auto* d = Outcome_descriptor();
    for (int i = 0; i < d->value_count(); ++i) {
      if (d->value(i)->number() != OUTCOME_UNSPECIFIED) {
        out->push_back(absl::AsciiStrToLower(d->value(i)->name()));
      }
    }
    return out;
  }();
  return *labels;
}

std::string OutcomeLabel(Outcome outcome) {
  return absl::AsciiStrToLower(Outcome_Name(outcome));
}

PoolMetrics::PoolMetrics(MetricRegistry& r)
    : requests(r.AddCounter("dice_evaluator_requests_total",
                            "Evaluations that clients asked for")),
      rejected(r.AddCounter("dice_evaluator_rejected_total",
                            "Requests refused because the queue was full or "
                            "the pool was draining")),
      cache_hits(r.AddCounter("dice_evaluator_cache_hits_total",
                              "Requests answered from the verdict cache")),
      cache_misses(r.AddCounter("dice_evaluator_cache_misses_total",
                                "Requests that the cache did not hold")),
      deduplicated(r.AddCounter("dice_evaluator_deduplicated_total",
                                "Requests that joined an evaluation in "
                                "flight")),
      tasks_asked(r.AddCounter("dice_evaluator_tasks_asked_total",
                               "Tasks that clients were asked to send")),
      results(r.AddCounters("dice_evaluator_results_total",
                            "Evaluations decided by workers", "outcome",
                            OutcomeLabels())),
      requeues(r.AddCounters("dice_evaluator_requeues_total",
                             "Evaluations given to a worker once more",
                             "reason",
                             {kRequeueNames[0], kRequeueNames[1],
                              kRequeueNames[2], kRequeueNames[3]})),
      infra_errors(r.AddCounters("dice_evaluator_infra_errors_total",
                                 "Failures of ours, none of them a verdict",
                                 "kind", {"retried", "lost"})),
      late_results(r.AddCounters("dice_evaluator_late_results_total",
                                 "Results of leases that were lost already",
                                 "fate", {"accepted", "ignored"})),
      stage_seconds(r.AddHistograms(
          "dice_evaluator_stage_seconds", "Time of one stage of an evaluation",
          "stage", {"parse", "compile", "load", "correctness", "timing"},
          SecondsBounds())),
      queue_seconds(r.AddHistogram("dice_evaluator_queue_seconds",
                                   "Time from a request to its lease",
                                   SecondsBounds())),
      evaluation_seconds(r.AddHistogram("dice_evaluator_evaluation_seconds",
                                        "Time of all stages of an evaluation",
                                        SecondsBounds())),
      judge_seconds(r.AddCounter("dice_evaluator_judge_seconds_total",
                                 "Sum of all stages of all evaluations")),
      queued(r.AddGauge("dice_evaluator_queued_evaluations",
                        "Evaluations that wait for a worker")),
      leased(r.AddGauge("dice_evaluator_leased_evaluations",
                        "Evaluations that a worker holds")),
      oldest_lease(r.AddGauge("dice_evaluator_oldest_lease_seconds",
                              "Age of the oldest lease")),
      clients(r.AddGauge("dice_evaluator_clients",
                         "Clients that have asked for something")),
      workers(r.AddGauges("dice_evaluator_workers", "Connected workers",
                          "state", {"serving", "draining"})),
      slots(r.AddGauges("dice_evaluator_slots", "Slots of connected workers",
                        "state", {"busy", "idle"})),
      last_result_time(
          r.AddGauge("dice_evaluator_last_result_timestamp_seconds",
                     "Unix time of the latest result")),
      store_errors(r.AddCounter("dice_evaluator_store_errors_total",
                                "Writes to the verdict cache that failed")) {}

void PoolMetrics::Record(const Effects& effects) {
  for (const Effects::Decided& d : effects.decided) {
    results[OutcomeLabel(d.verdict.outcome())].Increment();
    const StageSeconds& s = d.verdict.stage_s();
    double sum = 0;
    for (const auto& [stage, seconds] : {std::pair{"parse", s.parse()},
                                         {"compile", s.compile()},
                                         {"load", s.load()},
                                         {"correctness", s.correctness()},
                                         {"timing", s.timing()}}) {
      if (seconds <= 0) continue;
      stage_seconds[stage].Observe(seconds);
      sum += seconds;
    }
    evaluation_seconds.Observe(sum);
    judge_seconds.Increment(sum);
    queue_seconds.Observe(s.queue());
  }
  for (const Requeue why : effects.requeues) {
    requeues[kRequeueNames[static_cast<int>(why)]].Increment();
    if (why != Requeue::kConfirmTimeout) infra_errors["retried"].Increment();
  }
  infra_errors["lost"].Increment(static_cast<double>(effects.lost));
  late_results["accepted"].Increment(
      static_cast<double>(effects.late_accepted));
  late_results["ignored"].Increment(static_cast<double>(effects.late_ignored));
}

void PoolMetrics::Record(const QueueStats& stats) {
  queued.Set(static_cast<double>(stats.queued));
  leased.Set(static_cast<double>(stats.leased));
  oldest_lease.Set(absl::ToDoubleSeconds(stats.oldest_lease));
  clients.Set(static_cast<double>(stats.clients));
  int draining = 0, busy = 0, all = 0;
  for (const WorkerStatus& w : stats.workers) {
    draining += w.draining();
    busy += w.leased();
    all += w.slots();
  }
  workers["draining"].Set(draining);
  workers["serving"].Set(static_cast<double>(stats.workers.size()) - draining);
  slots["busy"].Set(busy);
  slots["idle"].Set(std::max(0, all - busy));
}

}  // namespace dice
