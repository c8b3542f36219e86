#include "learner/reward.h"

#include <algorithm>
#include <cmath>

namespace dice {
namespace {

double SpeedTerm(const Reward& config, const Verdict& v) {
  if (v.speedup() <= 0) return 0;
  const bool uncertain = v.speedup_lo() <= 1 && v.speedup_hi() >= 1;
  if (uncertain) return 0;
  const double top = config.speed_log2_max() > 0 ? config.speed_log2_max() : 3;
  return std::clamp(std::log2(v.speedup()), config.speed_log2_min(), top) / top;
}

}  // namespace

bool Compiled(const Verdict& v) {
  return v.outcome() == CORRECT || v.stage() > STAGE_COMPILE;
}

bool Correct(const Verdict& v) { return v.outcome() == CORRECT; }

std::optional<double> ComputeReward(const Reward& config,
                                    const Rollout& rollout) {
  if (!rollout.has_verdict()) return std::nullopt;
  const Verdict& v = rollout.verdict();
  if (v.blame() != BLAME_CANDIDATE) return std::nullopt;
  double r = config.w_compile() * Compiled(v);
  if (Correct(v)) {
    r += config.w_correct() + config.w_speed() * SpeedTerm(config, v);
    if (v.work() == "library") {
      r *= config.library_factor() > 0 ? config.library_factor() : 0.3;
    }
  }
  return r;
}

std::vector<double> ComputeAdvantages(
    const std::vector<std::optional<double>>& rewards, AdvantageKind kind,
    double negative_scale) {
  std::vector<double> out(rewards.size(), 0.0);
  double sum = 0, squares = 0;
  int n = 0;
  for (const auto& r : rewards) {
    if (!r.has_value()) continue;
    sum += *r;
    squares += *r * *r;
    ++n;
  }
  if (n < 2) return out;
  const double mean = sum / n;
  const double std = std::sqrt(std::max(0.0, squares / n - mean * mean));
  if (std < 1e-9) return out;
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (!rewards[i].has_value()) continue;
    double a = *rewards[i] - mean;
    if (kind == LEAVE_ONE_OUT) a *= static_cast<double>(n) / (n - 1);
    if (kind == Z_SCORE || kind == ADVANTAGE_KIND_UNSPECIFIED) a /= std + 1e-6;
    out[i] = a < 0 ? a * negative_scale : a;
  }
  return out;
}

}  // namespace dice
