#include "cli/verdict_text.h"

#include <limits>

#include "cli/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Verdict Accepted() {
  Verdict v;
  v.set_outcome(CORRECT);
  v.set_blame(BLAME_CANDIDATE);
  v.set_stage(STAGE_TIMING);
  v.set_isolation(ISOLATION_FULL);
  v.set_device("emulated");
  v.set_speedup(2.5);
  v.set_speedup_lo(2.1);
  v.set_speedup_hi(2.9);
  v.set_speedup_basis("naive_emulated");
  v.set_candidate_ms(0.004);
  v.set_error_index(-1);
  return v;
}

TEST(VerdictTextTest, JsonHasEveryKeyInOrderAndBareEnums) {
  const auto j = VerdictJson(Accepted());
  std::vector<std::string> keys;
  for (const auto& [key, value] : j.items()) keys.push_back(key);
  EXPECT_THAT(
      keys, testing::ElementsAre(
                "outcome", "blame", "stage", "message", "speedup", "speedup_lo",
                "speedup_hi", "speedup_basis", "candidate_ms", "eager_ms",
                "max_error", "error_index", "flags", "notes", "work",
                "isolation", "device", "harness_version", "stage_s", "cached"));
  EXPECT_EQ(j["outcome"], "CORRECT");
  EXPECT_EQ(j["blame"], "CANDIDATE");
  EXPECT_EQ(j["stage"], "timing");
  EXPECT_EQ(j["isolation"], "full");
  EXPECT_EQ(j["error_index"], -1);
  EXPECT_TRUE(j["flags"].is_array() && j["flags"].empty());
  // An empty verdict has the same keys.
  EXPECT_EQ(VerdictJson(Verdict()).size(), keys.size());
}

TEST(VerdictTextTest, JsonNumbersAreAlwaysFinite) {
  Verdict v = Accepted();
  v.set_max_error(std::numeric_limits<double>::infinity());
  v.set_speedup(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(VerdictJson(v)["max_error"], 0.0);
  EXPECT_EQ(VerdictJson(v)["speedup"], 0.0);
}

TEST(VerdictTextTest, ExitCodesSeparateRejectionFromUndecided) {
  Verdict v;
  v.set_outcome(CORRECT);
  EXPECT_EQ(VerdictExitCode(v), kAccepted);
  for (const Outcome o : {COMPILE_ERROR, WRONG_RESULT, DECEPTIVE, TIMEOUT}) {
    v.set_outcome(o);
    EXPECT_EQ(VerdictExitCode(v), kRejected) << Outcome_Name(o);
  }
  for (const Outcome o : {TASK_ERROR, UNSUPPORTED}) {
    v.set_outcome(o);
    EXPECT_EQ(VerdictExitCode(v), kUndecided) << Outcome_Name(o);
  }
}

TEST(VerdictTextTest, TextShowsSpeedupWithItsIntervalAndHangsLongMessages) {
  Verdict v = Accepted();
  EXPECT_THAT(VerdictText(v, false),
              HasSubstr("2.50x [2.10, 2.90] over naive_emulated"));
  EXPECT_THAT(VerdictText(v, false), HasSubstr("4 us a call"));
  EXPECT_THAT(VerdictText(v, false), Not(HasSubstr("\033")));
  EXPECT_THAT(VerdictText(v, true), HasSubstr("\033"));
  v.set_message("first\nsecond");
  EXPECT_THAT(VerdictText(v, false), HasSubstr("first\n             second\n"));
}

}  // namespace
}  // namespace dice::cli
