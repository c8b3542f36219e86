#include "evaluator/worker/judge_timing.h"

#include "evaluator/worker/judge_baseline.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

TEST(CreditedTimeTest, WhatABurstCostsBesideItsCallsCancelsOut) {
  // 100 us beside, 5 us a call.
  const auto burst = [](int calls) { return 100e-6 + 5e-6 * calls; };
  const MeasuredTime t =
      CreditedTime({burst(16), burst(16)}, {burst(64), burst(64)}, 16);
  EXPECT_NEAR(t.seconds, 5e-6, 1e-12);
  EXPECT_LT(t.lo, t.seconds);
  EXPECT_GT(t.hi, t.seconds);
}

TEST(CreditedTimeTest, DisturbancesWidenTheIntervalAndDoNotMoveTheTime) {
  const MeasuredTime t =
      CreditedTime({10e-6, 99e-6, 14e-6}, {40e-6, 46e-6, 500e-6}, 1);
  EXPECT_NEAR(t.seconds, 10e-6, 1e-12);
  EXPECT_NEAR(t.lo, (40e-6 - 14e-6) / 3, 1e-12);
  EXPECT_NEAR(t.hi, (46e-6 - 10e-6) / 3, 1e-12);
}

TEST(CreditedTimeTest, NothingIsFasterThanTheClock) {
  const MeasuredTime t = CreditedTime({5e-6, 5e-6}, {4e-6, 4e-6}, 16);
  EXPECT_GT(t.lo, 0);
  EXPECT_GE(t.seconds, 1e-7);
}

TEST(SpeedupTest, IntervalsCombineConservatively) {
  const Speedup s = SpeedupOver({.seconds = 10, .lo = 9, .hi = 12},
                                {.seconds = 5, .lo = 4, .hi = 6});
  EXPECT_DOUBLE_EQ(s.ratio, 2);
  EXPECT_DOUBLE_EQ(s.lo, 1.5);
  EXPECT_DOUBLE_EQ(s.hi, 3);
}

TEST(BaselineCacheTest, MeasuresOnceThenAgainAfterManyUses) {
  BaselineCache cache;
  int measured = 0;
  const auto measure = [&]() -> absl::StatusOr<std::optional<MeasuredTime>> {
    return MeasuredTime{.seconds = static_cast<double>(++measured)};
  };
  for (int i = 0; i < BaselineCache::kUses; ++i) {
    EXPECT_EQ(cache.Get("a", measure)->value().seconds, 1);
  }
  for (int i = 0; i < 3; ++i) (void)cache.Get("a", measure);
  EXPECT_EQ(measured, 2);
  EXPECT_EQ(cache.Get("b", measure)->value().seconds, 3);
}

TEST(BaselineCacheTest, ARefusalIsFinalAndAFailureOfOursIsNot) {
  BaselineCache cache;
  int calls = 0;
  const auto refuse = [&]() -> absl::StatusOr<std::optional<MeasuredTime>> {
    ++calls;
    return std::nullopt;
  };
  const auto fail = [&]() -> absl::StatusOr<std::optional<MeasuredTime>> {
    ++calls;
    return absl::UnavailableError("worker lost");
  };
  EXPECT_FALSE(cache.Get("a", fail).ok());
  for (int i = 0; i < 200; ++i)
    EXPECT_FALSE(cache.Get("a", refuse)->has_value());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace dice
