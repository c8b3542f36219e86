#include "common/metrics/registry.h"

#include <prometheus/text_serializer.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "common/base/log.h"

namespace dice {

template <typename Metric>
Metric& Labelled<Metric>::operator[](absl::string_view value) const {
  const auto it = metrics_.find(value);
  if (it != metrics_.end()) return *it->second;
  DICE_DCHECK(false) << "undeclared label value " << value;
  return *last_;
}
template class Labelled<Counter>;
template class Labelled<Gauge>;
template class Labelled<Histogram>;

void MetricRegistry::Declare(const std::string& name, bool counter) {
  DICE_CHECK(absl::StartsWith(name, "dice_")) << name;
  DICE_CHECK(counter == absl::EndsWith(name, "_total")) << name;
  DICE_CHECK(std::find(names_.begin(), names_.end(), name) == names_.end())
      << name;
  names_.push_back(name);
}

template <typename Metric, typename Family, typename... Args>
Labelled<Metric> MetricRegistry::AddEach(Family& family,
                                         const std::string& label,
                                         const std::vector<std::string>& values,
                                         const Args&... args) {
  Labelled<Metric> out;
  for (const std::string& value : values) {
    out.last_ = out.metrics_[value] = &family.Add({{label, value}}, args...);
  }
  return out;
}

Counter& MetricRegistry::AddCounter(const std::string& name,
                                    const std::string& help) {
  Declare(name, true);
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(registry_)
      .Add({});
}

Gauge& MetricRegistry::AddGauge(const std::string& name,
                                const std::string& help) {
  Declare(name, false);
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(
      {});
}

Histogram& MetricRegistry::AddHistogram(const std::string& name,
                                        const std::string& help,
                                        const std::vector<double>& bounds) {
  Declare(name, false);
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(registry_)
      .Add({}, bounds);
}

Labelled<Counter> MetricRegistry::AddCounters(
    const std::string& name, const std::string& help, const std::string& label,
    const std::vector<std::string>& values) {
  Declare(name, true);
  return AddEach<Counter>(
      prometheus::BuildCounter().Name(name).Help(help).Register(registry_),
      label, values);
}

Labelled<Gauge> MetricRegistry::AddGauges(
    const std::string& name, const std::string& help, const std::string& label,
    const std::vector<std::string>& values) {
  Declare(name, false);
  return AddEach<Gauge>(
      prometheus::BuildGauge().Name(name).Help(help).Register(registry_), label,
      values);
}

Labelled<Histogram> MetricRegistry::AddHistograms(
    const std::string& name, const std::string& help, const std::string& label,
    const std::vector<std::string>& values, const std::vector<double>& bounds) {
  Declare(name, false);
  return AddEach<Histogram>(
      prometheus::BuildHistogram().Name(name).Help(help).Register(registry_),
      label, values, bounds);
}

std::string MetricRegistry::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

std::vector<double> ExponentialBounds(double start, double factor, int n) {
  std::vector<double> out;
  for (double b = start; n > 0; --n, b *= factor) out.push_back(b);
  return out;
}

std::vector<double> SecondsBounds() {
  return {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
}

}  // namespace dice
