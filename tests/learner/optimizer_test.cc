#include "learner/optimizer.h"

#include <limits>

#include "gtest/gtest.h"

namespace dice {
namespace {

Optimizer Config() {
  Optimizer c;
  c.set_lr(0.1);
  c.set_beta1(0.9);
  c.set_beta2(0.95);
  c.set_eps(1e-8);
  c.set_weight_decay(0.01);
  return c;
}

TEST(AdamWTest, AgreesWithTorchsOwn) {
  torch::manual_seed(0);
  torch::Tensor a = torch::randn({3, 4}), b = torch::randn({5});
  torch::Tensor ta = a.clone().requires_grad_(true);
  torch::Tensor tb = b.clone().requires_grad_(true);
  torch::optim::AdamW reference(
      std::vector<torch::Tensor>{ta, tb},
      torch::optim::AdamWOptions(0.1).betas({0.9, 0.95}).weight_decay(0.01));
  AdamW ours({{"a", a}, {"b", b}}, Config());
  for (int i = 0; i < 20; ++i) {
    ta.mutable_grad() = torch::randn({3, 4});
    tb.mutable_grad() = torch::randn({5});
    ours.Step(torch::cat({ta.grad().flatten(), tb.grad().flatten()}), 0.1);
    reference.step();
  }
  EXPECT_LE((a - ta).abs().max().item<double>(), 1e-5);
  EXPECT_LE((b - tb).abs().max().item<double>(), 1e-5);
}

TEST(AdamWTest, RestoredStateContinuesBitForBit) {
  const auto gradient = [](int i) {
    return torch::arange(4, torch::kFloat32) - i;
  };
  torch::Tensor a = torch::ones({4}), b = torch::ones({4});
  AdamW first({{"p", a}}, Config());
  for (int i = 0; i < 3; ++i) first.Step(gradient(i), 0.1);
  AdamW second({{"p", b}}, Config());
  ASSERT_TRUE(second.SetState(first.State()).ok());
  first.Step(gradient(3), 0.1);
  second.Step(gradient(3), 0.1);
  EXPECT_TRUE(torch::equal(a, b));
  torch::Tensor other = torch::ones({5});
  EXPECT_FALSE(AdamW({{"p", other}}, Config()).SetState(first.State()).ok());
}

TEST(AdamWTest, AGradientThatIsNotFiniteChangesNothing) {
  torch::Tensor a = torch::ones({2});
  AdamW opt({{"p", a}}, Config());
  opt.Step(torch::tensor({1.0f, std::numeric_limits<float>::infinity()}), 0.1);
  EXPECT_TRUE(torch::equal(a, torch::ones({2})));
}

TEST(AdamWTest, KeepsFp32MastersOfBf16Weights) {
  torch::Tensor a = torch::ones({1}).to(torch::kBFloat16);
  Optimizer c = Config();
  c.set_weight_decay(0);
  AdamW opt({{"p", a}}, c);
  // Steps far below bf16's resolution must add up.
  for (int i = 0; i < 100; ++i) opt.Step(torch::ones({1}), 1e-4);
  EXPECT_NEAR(a.item<double>(), 0.99, 5e-3);
}

TEST(AdamWTest, WarmsUpAndDecays) {
  Optimizer c = Config();
  c.set_warmup_steps(10);
  EXPECT_DOUBLE_EQ(AdamW::LearningRate(c, 0, 110), 0.01);
  EXPECT_DOUBLE_EQ(AdamW::LearningRate(c, 9, 110), 0.1);
  EXPECT_DOUBLE_EQ(AdamW::LearningRate(c, 100, 110), 0.1);
  c.set_final_lr_fraction(0.1);
  EXPECT_NEAR(AdamW::LearningRate(c, 60, 110), 0.055, 1e-12);
  EXPECT_NEAR(AdamW::LearningRate(c, 110, 110), 0.01, 1e-12);
}

}  // namespace
}  // namespace dice
