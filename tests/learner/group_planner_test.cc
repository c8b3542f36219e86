#include "learner/group_planner.h"

#include <set>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/learner/rollouts.h"

namespace dice {
namespace {

CompletedGroup GroupOf(int64_t ordinal) {
  CompletedGroup g;
  g.lease.set_task_ordinal(ordinal);
  return g;
}

TEST(GroupPlannerTest, AdmitsAtMostSPlusOneStepsOfGroups) {
  GroupPlanner planner({.steps = 5, .tasks_per_step = 3, .max_staleness = 1,
                        .version_of_step0 = 40});
  auto slots = planner.Admit(0);
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(slots[0].min_version, 40);
  EXPECT_EQ(slots[5].step, 1);
  EXPECT_EQ(slots[5].min_version, 40);
  EXPECT_TRUE(planner.Admit(0).empty()) << "each once";
  slots = planner.Admit(1);
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0].ordinal, 6);
  EXPECT_EQ(slots[0].min_version, 41);
  EXPECT_EQ(planner.Admit(4).size(), 6u) << "never beyond the stage";
}

TEST(GroupPlannerTest, BatchesByOrdinalWhateverTheOrderOfArrival) {
  GroupPlanner planner({.steps = 2, .tasks_per_step = 3, .max_staleness = 1});
  planner.Admit(0);
  for (const int64_t ordinal : {4, 2, 0}) planner.Put(GroupOf(ordinal));
  EXPECT_FALSE(planner.Complete(0));
  planner.Put(GroupOf(1));
  ASSERT_TRUE(planner.Complete(0));
  const auto groups = planner.Take(0);
  ASSERT_EQ(groups.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(groups[i].lease.task_ordinal(), i);
  }
  EXPECT_EQ(planner.outstanding(), 3);
}

TEST(GroupPlannerTest, RefillsHaveABudgetAndOrdinalsOfTheirOwn) {
  GroupPlanner planner({.steps = 4, .tasks_per_step = 2});
  planner.Admit(0);
  planner.Put(GroupOf(0));
  planner.Put(GroupOf(1));
  EXPECT_EQ(planner.Take(0).size(), 2u);
  std::set<int64_t> ordinals;
  while (const auto slot = planner.Refill(0)) {
    EXPECT_GE(slot->ordinal, 8);
    EXPECT_TRUE(ordinals.insert(slot->ordinal).second);
    EXPECT_FALSE(planner.Complete(0));
    planner.Put(GroupOf(slot->ordinal));
    EXPECT_TRUE(planner.Complete(0));
  }
  EXPECT_EQ(ordinals.size(), 8u);
  // Of another step, and of a planner that was resumed there: the same.
  GroupPlanner resumed({.steps = 4, .tasks_per_step = 2, .first_step = 1});
  planner.Admit(1);
  resumed.Admit(1);
  EXPECT_EQ(planner.Refill(1)->ordinal, resumed.Refill(1)->ordinal);
  EXPECT_EQ(ordinals.count(resumed.Refill(1)->ordinal), 0u);
}

TEST(GroupPlannerTest, AResumedStageBeginsAtItsStep) {
  GroupPlanner planner({.steps = 5, .tasks_per_step = 2, .first_step = 3,
                        .version_of_step0 = 10});
  const auto slots = planner.Admit(3);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].ordinal, 6);
  EXPECT_EQ(slots[0].min_version, 13);
}

// Actors of any number and speed: every step is reached, no group is older than
// S, and admission bounds what is in flight.
TEST(GroupPlannerTest, ProgressesUnderEveryCapacity) {
  for (const int64_t staleness : {0, 1, 3}) {
    for (const int64_t tasks : {1, 2, 7}) {
      for (const int actors : {1, 3, 20}) {
        FakeClock clock;
        LeaseTable leases({.max_attempts = 100}, clock);
        GroupPlanner planner({.steps = 12, .tasks_per_step = tasks,
                              .max_staleness = staleness});
        Rng rng(staleness * 100 + tasks * 10 + actors);
        std::vector<std::pair<Lease, int64_t>> working;  // with its version
        int64_t version = 0;
        std::set<int64_t> used;
        for (int64_t step = 0; step < 12;) {
          for (const auto& slot : planner.Admit(step)) {
            Lease lease;
            lease.set_lease_id(std::to_string(slot.ordinal));
            lease.set_task_ordinal(slot.ordinal);
            lease.set_num_samples(1);
            lease.set_min_version(slot.min_version);
            leases.Offer(lease);
          }
          ASSERT_LE(planner.outstanding(), (staleness + 1) * tasks);
          while (static_cast<int>(working.size()) < actors) {
            auto taken = leases.Take(1, clock.Now());
            if (taken.empty()) break;
            ASSERT_LE(taken[0].min_version(), version);
            working.emplace_back(taken[0], version);
          }
          if (!working.empty() && rng.Below(10) > 0) {
            const size_t i = rng.Below(working.size());
            const auto [lease, sampled] = working[i];
            working.erase(working.begin() + static_cast<int64_t>(i));
            EXPECT_EQ(leases.Complete(lease.lease_id(), lease.attempt(),
                                      Rollouts(1, sampled), true),
                      PushResult::kAccepted)
                << "work within admission is never stale";
          }
          while (auto group = leases.Await(clock.Now())) {
            planner.Put(*std::move(group));
          }
          if (!planner.Complete(step)) continue;
          for (const auto& g : planner.Take(step)) {
            EXPECT_TRUE(used.insert(g.lease.task_ordinal()).second);
          }
          ++step;
          ++version;
        }
        EXPECT_EQ(used.size(), static_cast<size_t>(12 * tasks));
      }
    }
  }
}

}  // namespace
}  // namespace dice
