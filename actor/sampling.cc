#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_join.h"
#include "actor/sampler.h"

namespace dice {
namespace {

// Entries (probability, id) that survive top-k and top-p, most likely first.
std::vector<std::pair<double, int32_t>> Truncated(const SamplingConfig& config,
                                                  const float* logits,
                                                  int64_t vocab,
                                                  double temperature) {
  std::vector<std::pair<double, int32_t>> p;
  const float top = *std::max_element(logits, logits + vocab);
  for (int64_t i = 0; i < vocab; ++i) {
    if (std::isinf(logits[i])) continue;
    p.emplace_back(std::exp((logits[i] - top) / temperature),
                   static_cast<int32_t>(i));
  }
  std::stable_sort(p.begin(), p.end(), [](const auto& a, const auto& b) {
    return a.first > b.first;
  });
  if (config.top_k() > 0 && p.size() > static_cast<size_t>(config.top_k())) {
    p.resize(config.top_k());
  }
  double total = 0;
  for (const auto& [w, id] : p) total += w;
  if (config.top_p() > 0 && config.top_p() < 1) {
    // The smallest set whose mass reaches top_p; never empty.
    double mass = 0;
    size_t n = 0;
    while (n < p.size() && mass < config.top_p() * total) mass += p[n++].first;
    p.resize(n);
    total = mass;
  }
  for (auto& [w, id] : p) w /= total;
  return p;
}

}  // namespace

absl::Status ValidateSampling(const SamplingConfig& c, bool for_rl) {
  std::vector<std::string> bad;
  const auto need = [&](bool ok, const char* text) {
    if (!ok) bad.emplace_back(text);
  };
  need(c.strategy() != COMMIT_STRATEGY_UNSPECIFIED, "strategy is not set");
  need(c.temperature() > 0 || c.greedy(), "temperature must be positive");
  need(c.top_k() >= 0, "top_k must not be negative");
  need(c.top_p() >= 0 && c.top_p() <= 1, "top_p must lie in [0, 1]");
  need(c.steps_per_block() > 0, "steps_per_block must be positive");
  need(c.max_response_tokens() > 0, "max_response_tokens must be positive");
  if (c.strategy() == DYNAMIC) {
    need(c.confidence_threshold() > 0 && c.confidence_threshold() <= 1,
         "confidence_threshold must lie in (0, 1]");
  }
  if (for_rl) {
    need(c.temperature() == 1,
         "RL needs temperature 1: the importance weight is taken there");
    need(c.top_k() == 0, "RL refuses top_k");
    need(c.top_p() == 0 || c.top_p() == 1, "RL refuses top_p");
    need(!c.greedy(), "RL refuses greedy sampling");
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("sampling: " + absl::StrJoin(bad, "; "));
}

Draw DrawToken(const SamplingConfig& config, const float* logits, int64_t vocab,
               double uniform) {
  // One pass for the softmax at T = 1, which log-probability and entropy need
  // whatever is drawn from.
  const float top = *std::max_element(logits, logits + vocab);
  double sum = 0, weighted = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    const double z = logits[i] - top;
    const double e = std::exp(z);
    sum += e;
    if (e > 0) weighted += e * z;
  }
  const double log_sum = std::log(sum);
  Draw draw;
  draw.entropy = log_sum - weighted / sum;
  if (config.greedy()) {
    draw.token =
        static_cast<int32_t>(std::max_element(logits, logits + vocab) - logits);
    draw.confidence = std::exp(logits[draw.token] - top - log_sum);
  } else if (config.temperature() == 1 && config.top_k() == 0 &&
             (config.top_p() == 0 || config.top_p() == 1)) {
    double left = uniform * sum;
    for (int64_t i = 0; i < vocab; ++i) {
      const double e = std::exp(static_cast<double>(logits[i] - top));
      if (e == 0) continue;
      draw.token = static_cast<int32_t>(i);  // the last one if rounding misses
      draw.confidence = e / sum;
      if ((left -= e) <= 0) break;
    }
  } else {
    double left = uniform;
    for (const auto& [p, id] :
         Truncated(config, logits, vocab, config.temperature())) {
      draw.token = id;
      draw.confidence = p;
      if ((left -= p) <= 0) break;
    }
  }
  draw.logprob = logits[draw.token] - top - log_sum;
  return draw;
}

std::vector<Draw> ChooseCommits(const SamplingConfig& config,
                                int64_t block_size, std::vector<Draw> draws) {
  const int64_t steps = std::max<int64_t>(1, config.steps_per_block());
  size_t keep =
      std::min<size_t>(draws.size(), (block_size + steps - 1) / steps);
  const auto by_confidence = [](const Draw& a, const Draw& b) {
    return a.confidence > b.confidence;
  };
  switch (config.strategy()) {
    case SEQUENTIAL:
      break;
    case ENTROPY_BOUNDED: {
      std::stable_sort(
          draws.begin(), draws.end(),
          [](const Draw& a, const Draw& b) { return a.entropy < b.entropy; });
      double total = 0;
      keep = 0;
      while (keep < draws.size() &&
             (total += draws[keep].entropy) <= config.entropy_bound()) {
        ++keep;
      }
      keep = std::max<size_t>(keep, 1);
      break;
    }
    case DYNAMIC: {
      std::stable_sort(draws.begin(), draws.end(), by_confidence);
      const auto sure =
          std::count_if(draws.begin(), draws.end(), [&](const Draw& d) {
            return d.confidence > config.confidence_threshold();
          });
      keep = std::max<size_t>(keep, sure);
      break;
    }
    default:  // STATIC
      std::stable_sort(draws.begin(), draws.end(), by_confidence);
  }
  draws.resize(keep);
  return draws;
}

}  // namespace dice
