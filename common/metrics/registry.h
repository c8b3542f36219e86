// Declared metrics of one process, in Prometheus' data model. Every series
// exists from the start, at zero, so that an alert never waits for a first
// event; a label has a closed set of values.
//
// A role declares all of its metrics in one struct (evaluator/pool/metrics.h)
// and docs/metrics.md lists them. Thread-safe; handles live as long as the
// registry.
#ifndef DICE_COMMON_METRICS_REGISTRY_H_
#define DICE_COMMON_METRICS_REGISTRY_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dice {

// Counter: Increment(v = 1). Gauge: Set(v). Histogram: Observe(v).
using Counter = prometheus::Counter;
using Gauge = prometheus::Gauge;
using Histogram = prometheus::Histogram;

// One metric for each value of a label.
template <typename Metric>
class Labelled {
 public:
  // A value outside the declared set is a bug: fatal in debug builds, else it
  // counts under the set's last value.
  Metric& operator[](absl::string_view value) const;

 private:
  friend class MetricRegistry;
  std::map<std::string, Metric*, std::less<>> metrics_;
  Metric* last_ = nullptr;
};

class MetricRegistry {
 public:
  // Names are dice_<role>_<thing>_<base unit>, counters end in _total; a
  // violation or a second declaration is fatal.
  Counter& AddCounter(const std::string& name, const std::string& help);
  Gauge& AddGauge(const std::string& name, const std::string& help);
  // `bounds`: upper limits of the buckets, ascending.
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds);
  Labelled<Counter> AddCounters(const std::string& name,
                                const std::string& help,
                                const std::string& label,
                                const std::vector<std::string>& values);
  Labelled<Gauge> AddGauges(const std::string& name, const std::string& help,
                            const std::string& label,
                            const std::vector<std::string>& values);
  Labelled<Histogram> AddHistograms(const std::string& name,
                                    const std::string& help,
                                    const std::string& label,
                                    const std::vector<std::string>& values,
                                    const std::vector<double>& bounds);

  // The exposition format, all metrics.
  std::string Text() const;
  // Declared names in order of declaration.
  const std::vector<std::string>& names() const { return names_; }

 private:
  template <typename Metric, typename Family, typename... Args>
  Labelled<Metric> AddEach(Family& family, const std::string& label,
                           const std::vector<std::string>& values,
                           const Args&... args);
  void Declare(const std::string& name, bool counter);

  prometheus::Registry registry_;
  std::vector<std::string> names_;
};

// start, start * factor, ... (n of them).
std::vector<double> ExponentialBounds(double start, double factor, int n);
// 1 ms to 1000 s.
std::vector<double> SecondsBounds();

}  // namespace dice

#endif  // DICE_COMMON_METRICS_REGISTRY_H_
