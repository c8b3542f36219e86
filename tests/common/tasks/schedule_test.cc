#include "common/tasks/schedule.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

std::vector<Task> Tasks(int n, int families = 2) {
  std::vector<Task> out(n);
  for (int i = 0; i < n; ++i) {
    out[i].set_id(absl::StrCat("t", i));
    out[i].set_family(absl::StrCat("f", i % families));
  }
  return out;
}

std::vector<size_t> Take(TaskSchedule& s, int n) {
  std::vector<size_t> out;
  for (int i = 0; i < n; ++i) out.push_back(s.Next());
  return out;
}

TEST(ScheduleTest, SequentialKeepsTheFilesOrderAndSkipsQuarantine) {
  std::vector<Task> tasks = Tasks(4);
  tasks[1].set_quarantine_reason("constant output");
  auto s = *TaskSchedule::Create(SEQUENTIAL_ORDER, tasks, 1);
  EXPECT_THAT(Take(s, 5), testing::ElementsAre(0, 2, 3, 0, 2));
  EXPECT_EQ(s.epoch(), 1);
  EXPECT_EQ(s.ordinal(), 5u);
}

TEST(ScheduleTest, ShuffledGivesEachTaskOnceAnEpochInAnOrderOfItsSeed) {
  const std::vector<Task> tasks = Tasks(60);
  auto a = *TaskSchedule::Create(SHUFFLED, tasks, 1);
  auto b = *TaskSchedule::Create(SHUFFLED, tasks, 1);
  auto c = *TaskSchedule::Create(SHUFFLED, tasks, 2);
  const auto first = Take(a, 60), second = Take(a, 60);
  EXPECT_EQ(std::set<size_t>(first.begin(), first.end()).size(), 60u);
  EXPECT_EQ(std::set<size_t>(second.begin(), second.end()).size(), 60u);
  EXPECT_NE(first, second);
  EXPECT_EQ(Take(b, 60), first);
  EXPECT_NE(Take(c, 60), first);
}

TEST(ScheduleTest, ShuffledSpreadsTheFamilies) {
  const std::vector<Task> tasks = Tasks(160, 8);
  auto s = *TaskSchedule::Create(SHUFFLED, tasks, 5);
  for (int step = 0; step < 10; ++step) {
    std::map<std::string, int> seen;
    for (const size_t i : Take(s, 16)) ++seen[tasks[i].family()];
    for (const auto& [family, n] : seen) EXPECT_LE(n, 4) << family;
    EXPECT_GE(seen.size(), 7u);
  }
}

TEST(ScheduleTest, ByDifficultyOrdersTheNextEpochByWhatPassed) {
  auto s = *TaskSchedule::Create(BY_DIFFICULTY, Tasks(3), 1);
  EXPECT_THAT(Take(s, 1), testing::ElementsAre(0));
  s.Record(0, 0, 16);
  s.Record(2, 12, 16);
  EXPECT_THAT(Take(s, 5), testing::ElementsAre(1, 2, 2, 1, 0));
  EXPECT_DOUBLE_EQ(s.PassRate(2), 13.0 / 18);
}

TEST(ScheduleTest, GoesOnFromItsCursorExactly) {
  const std::vector<Task> tasks = Tasks(20);
  for (const Schedule kind : {SEQUENTIAL_ORDER, SHUFFLED, BY_DIFFICULTY}) {
    auto s = *TaskSchedule::Create(kind, tasks, 9);
    Take(s, 27);
    s.Record(3, 5, 8);
    auto t = *TaskSchedule::Create(kind, tasks, 9);
    ASSERT_EQ(t.RestoreCursor(s.SaveCursor()), absl::OkStatus());
    EXPECT_EQ(t.ordinal(), 27u);
    EXPECT_EQ(Take(t, 50), Take(s, 50));
  }
}

TEST(ScheduleTest, RefusesACursorOfOtherTasksOrDamaged) {
  auto s = *TaskSchedule::Create(SHUFFLED, Tasks(20), 9);
  auto other = *TaskSchedule::Create(SHUFFLED, Tasks(21), 9);
  EXPECT_FALSE(other.RestoreCursor(s.SaveCursor()).ok());
  EXPECT_FALSE(s.RestoreCursor("{").ok());
  std::string cursor = s.SaveCursor();
  cursor.replace(cursor.find("\"order\":["), 9, "\"order\":[0,0,");
  EXPECT_FALSE(s.RestoreCursor(cursor).ok());
  std::vector<Task> none = Tasks(1);
  none[0].set_quarantine_reason("x");
  EXPECT_EQ(TaskSchedule::Create(SHUFFLED, none, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dice
