#include "cli/report.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "cli/report_data.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice::cli {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// A run folder that holds what `files` say.
std::string RunFolder(
    const std::vector<std::pair<std::string, std::string>>& files) {
  const std::string dir = testing::TempDir() + "/runs/small";
  std::filesystem::remove_all(dir);
  for (const auto& [name, text] : files) {
    const std::string path = JoinPath(dir, name);
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    DICE_CHECK_OK(WriteFileAtomic(path, text));
  }
  return dir;
}

std::string Row(const std::string& stage, int step, double reward) {
  return Json{{"stage", stage}, {"step", step}, {"reward_mean", reward}}
             .dump() +
         "\n";
}

// As protobuf prints a rollout; `speedup` 0: not correct.
std::string Rollout(const std::string& task, const std::string& stage,
                    double speedup, const std::string& text,
                    bool cached = false) {
  Json verdict = {{"outcome", speedup > 0 ? "CORRECT" : "COMPILE_ERROR"},
                  {"device", "emulated"},
                  {"error_index", "-1"},
                  {"stage_s", {{"compile", 0.04}, {"timing", 0.01}}}};
  if (speedup > 0) {
    verdict["speedup"] = speedup;
    verdict["speedup_lo"] = 0.9 * speedup;
    verdict["speedup_basis"] = "naive_emulated";
  }
  if (cached) verdict["cached"] = true;
  return Json{{"task_id", task},
              {"stage", stage},
              {"step", "7"},
              {"text", text},
              {"verdict", verdict}}
             .dump() +
         "\n";
}

constexpr char kTasks[] =
    R"({"id":"qs/a/1","family":"a","split":"heldout","prompt":"// x@half\n",)"
    R"("reference_source":"class Model: pass","naive_response":"slow"})"
    "\n"
    R"({"id":"qs/b/1","family":"b","split":"train","prompt":"// x@abs\n",)"
    R"("reference_source":"class Model: pass"})"
    "\n";
constexpr char kConfig[] =
    "name: \"small\" model { config_json: \"tasks.jsonl\" tokenizer_dir: "
    "\"tasks.jsonl\" }\n"
    "tasks { train_path: \"tasks.jsonl\" }\n"
    "stages { name: \"sft\" steps: 1 optimizer { lr: 1 } sft { batch_size: 1 } "
    "}\n";

TEST(ReportTest, GathersStepsOutcomesFamiliesAndTheBestKernels) {
  const std::string dir = RunFolder({
      {"tasks.jsonl", kTasks},
      {"config.pbtxt", kConfig},
      {"metrics.jsonl", Row("sft", 1, 0) + Row("infill", 1, 0.5)},
      {"summary.json", R"({"seed": 3, "heldout_reward_final": 0.5})"},
      {"rollouts/infill_000007.jsonl",
       Rollout("qs/a/1", "infill", 2, "good") +
           Rollout("qs/a/1", "infill", 4, "better") +
           Rollout("qs/b/1", "infill", 3, "other", /*cached=*/true) +
           Rollout("qs/b/1", "infill", 0, "bad") +
           R"({"task_id":"qs/b/1","stage":"infill","step":"7"})"
           "\n"},
      {"rollouts/evaluation_sft.jsonl",
       Rollout("qs/a/1", "evaluation_sft", 0, "x")},
      {"rollouts/evaluation_final.jsonl",
       Rollout("qs/a/1", "evaluation_final", 9, "y") +
           Rollout("qs/b/1", "evaluation_final", 9, "not held out")},
  });
  const auto report = GatherReport(dir);
  ASSERT_TRUE(report.ok()) << report.status();
  const Json& r = *report;
  EXPECT_EQ(r["name"], "small");
  EXPECT_EQ(r["device"], "emulated");
  EXPECT_EQ(r["notes"], Json::array()) << r["notes"];
  EXPECT_EQ(r["steps"].size(), 2u);
  ASSERT_EQ(r["outcomes"].size(), 1u);
  EXPECT_EQ(r["outcomes"][0]["step"], 7);
  EXPECT_EQ(r["outcomes"][0]["counts"],
            (Json{{"COMPILE_ERROR", 1}, {"CORRECT", 3}, {"LOST", 1}}));
  EXPECT_EQ(r["judge"]["evaluations"], 7);
  EXPECT_EQ(r["judge"]["cached"], 1);
  EXPECT_DOUBLE_EQ(r["judge"]["stage_s"]["compile"].get<double>(), 0.04);
  ASSERT_EQ(r["families"].size(), 1u);
  EXPECT_EQ(r["families"][0]["correct_sft"], 0);
  EXPECT_EQ(r["families"][0]["correct_final"], 1);
  // Evaluation samples are no training rollouts: best is of those alone.
  ASSERT_EQ(r["best"].size(), 2u);
  EXPECT_EQ(r["best"][0]["kernel"], "better");
  EXPECT_EQ(r["best"][0]["naive"], "slow");
  EXPECT_EQ(r["best"][1]["kernel"], "other");
  EXPECT_EQ(r["summary"]["seed"], 3);
}

TEST(ReportTest, ShowsWhatThereIsOfARunThatStillGoesOn) {
  const std::string dir = RunFolder({
      {"metrics.jsonl", Row("sft", 1, 0) + "{\"stage\": \"sf"},
      {"rollouts/infill_000001.jsonl", "{\"task_id\""},
  });
  const auto report = GatherReport(dir);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ((*report)["steps"].size(), 1u);
  EXPECT_TRUE((*report)["summary"].is_null());
  const std::string notes = (*report)["notes"].dump();
  EXPECT_THAT(notes, HasSubstr("1 lines of metrics.jsonl are unreadable"));
  EXPECT_THAT(notes, HasSubstr("no summary.json"));
  EXPECT_THAT(notes, HasSubstr("1 rollouts are unreadable"));
  EXPECT_TRUE(MakeReport(dir).ok());
}

TEST(ReportTest, SaysWhenThereIsNoRun) {
  EXPECT_EQ(GatherReport("/nonexistent").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(GatherReport(RunFolder({{"notes.txt", "x"}})).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ReportTest, PageStandsAloneAndCandidatesCannotBreakOut) {
  const std::string dir =
      RunFolder({{"metrics.jsonl", Row("infill", 1, 0.5)},
                 {"rollouts/infill_000001.jsonl",
                  Rollout("t", "infill", 2, "</script><img src=x>")}});
  const std::string page = *MakeReport(dir);
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("{{data}}"), std::string::npos);
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

}  // namespace
}  // namespace dice::cli
