#include "learner/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"

namespace dice {

using torch::Tensor;

AdamW::AdamW(NamedTensors parameters, const Optimizer& config)
    : parameters_(std::move(parameters)) {
  std::vector<Tensor> flat;
  for (const auto& [name, p] : parameters_) {
    flat.push_back(p.detach().to(torch::kFloat32).flatten());
  }
  master_ = torch::cat(flat);
  Reset(config);
}

void AdamW::Reset(const Optimizer& config) {
  config_ = config;
  if (config_.beta1() == 0) config_.set_beta1(0.9);
  if (config_.beta2() == 0) config_.set_beta2(0.999);
  if (config_.eps() == 0) config_.set_eps(1e-8);
  m_ = torch::zeros_like(master_);
  v_ = torch::zeros_like(master_);
  step_ = 0;
}

double AdamW::LearningRate(const Optimizer& config, int64_t step,
                           int64_t total) {
  const double warmup = config.warmup_steps();
  if (step < warmup) return config.lr() * (step + 1) / warmup;
  if (config.final_lr_fraction() == 0) return config.lr();
  const double rest = std::max(1.0, total - warmup);
  const double done = std::min(1.0, (step - warmup) / rest);
  return config.lr() * (1 - done * (1 - config.final_lr_fraction()));
}

Tensor AdamW::TakeGradient() {
  torch::NoGradGuard no_grad;
  std::vector<Tensor> flat;
  for (auto& [name, p] : parameters_) {
    flat.push_back(p.grad().defined()
                       ? p.grad().to(torch::kFloat32).flatten()
                       : torch::zeros({p.numel()}, torch::kFloat32));
    p.mutable_grad() = Tensor();
  }
  return torch::cat(flat);
}

double AdamW::Step(Tensor gradient, double lr) {
  torch::NoGradGuard no_grad;
  const double norm = gradient.norm().item<double>();
  if (!std::isfinite(norm)) return norm;
  if (config_.clip_norm() > 0 && norm > config_.clip_norm()) {
    gradient = gradient * (config_.clip_norm() / norm);
  }
  ++step_;
  m_.lerp_(gradient, 1 - config_.beta1());
  v_.mul_(config_.beta2())
      .addcmul_(gradient, gradient, 1 - config_.beta2());
  const double c1 = 1 - std::pow(config_.beta1(), step_);
  const double c2 = 1 - std::pow(config_.beta2(), step_);
  if (config_.weight_decay() > 0) {
    master_.mul_(1 - lr * config_.weight_decay());
  }
  master_.addcdiv_(m_, v_.sqrt().div_(std::sqrt(c2)).add_(config_.eps()),
                   -lr / c1);
  CopyOut();
  return norm;
}

void AdamW::CopyOut() {
  torch::NoGradGuard no_grad;
  int64_t at = 0;
  for (auto& [name, p] : parameters_) {
    p.copy_(master_.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
}

NamedTensors AdamW::State() const {
  return {{"master", master_},
          {"m", m_},
          {"v", v_},
          {"step", torch::tensor(step_, torch::kInt64)}};
}

absl::Status AdamW::SetState(const NamedTensors& state) {
  const std::map<std::string, Tensor> by_name(state.begin(), state.end());
  for (const char* name : {"master", "m", "v", "step"}) {
    const auto it = by_name.find(name);
    const int64_t want = name == std::string("step") ? 1 : master_.numel();
    if (it == by_name.end() || it->second.numel() != want) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer state: tensor ", name,
                       " is missing or does not fit the model"));
    }
  }
  master_ = by_name.at("master").clone();
  m_ = by_name.at("m").clone();
  v_ = by_name.at("v").clone();
  step_ = by_name.at("step").item<int64_t>();
  CopyOut();
  return absl::OkStatus();
}

}  // namespace dice
