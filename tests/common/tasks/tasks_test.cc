#include "common/tasks/tasks.h"

#include <zlib.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kReference[] = "class Model: pass\n";

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/tasks/", name);
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  DICE_CHECK_OK(WriteFileAtomic(path, text));
  return path;
}

Task Small() {
  Task t;
  t.set_id("a/1");
  t.set_reference_source(kReference);
  t.set_prompt("// x\n");
  t.set_candidate_template("head\n{{response}}tail\n");
  t.mutable_scaffold()->set_prefix("p;\n");
  t.mutable_scaffold()->set_middle("m;\n");
  t.mutable_scaffold()->set_suffix("}\n");
  Solution& s = *t.add_solutions();
  s.set_response("p;\nm;\n}\n");
  s.set_quality("good");
  *s.mutable_scaffold() = t.scaffold();
  return t;
}

TEST(TasksTest, JsonlRoundTripsPlainAndCompressed) {
  Task other = Small();
  other.set_id("a/2");
  other.set_split("heldout");
  const std::string path = absl::StrCat(testing::TempDir(), "/set.jsonl");
  ASSERT_EQ(SaveTasksJsonl(path, {Small(), other}), absl::OkStatus());
  const auto loaded = LoadTasks(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 2u);
  EXPECT_EQ((*loaded)[1].SerializeAsString(), other.SerializeAsString());

  const std::string bytes = *ReadFile(path), gz = path + ".gz";
  gzFile f = gzopen(gz.c_str(), "wb");
  gzwrite(f, bytes.data(), bytes.size());
  gzclose(f);
  EXPECT_EQ(LoadTasks(gz)->size(), 2u);
  std::string cut = *ReadFile(gz);
  cut.resize(cut.size() / 2);
  EXPECT_EQ(LoadTasks(Write("cut.jsonl.gz", cut)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TasksTest, ListsEveryBadEntryWithItsPlace) {
  const std::string good = R"({"id":"a","reference_source":"r","prompt":"p"})";
  const auto status =
      LoadTasks(
          Write("bad.jsonl",
                absl::StrCat(good, "\n{\n", good, "\n",
                             R"({"id":"b","prompt":"p","oops":1})", "\n",
                             R"({"id":"c","reference_source":"r",)",
                             R"("prompt":"p","candidate_template":"x"})")))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("line 2: "));
  EXPECT_THAT(text, HasSubstr("line 3: id 'a' occurs twice"));
  EXPECT_THAT(text, HasSubstr("oops"));
  EXPECT_THAT(text, HasSubstr("line 5: candidate_template needs exactly one"));
}

TEST(TasksTest, LoadsDiceListsWithTheirScaffolds) {
  const json list = {{{"idx", 7}, {"level", 2}, {"pytorch_code", kReference}},
                     {{"id", "99"},
                      {"pytorch_code", kReference},
                      {"cuda_code", "abc"},
                      {"prefix", "a"},
                      {"middle", "b"},
                      {"suffix", "c"}}};
  const auto tasks = *LoadTasks(Write("dice.json", list.dump()));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].id(), "dice/7");
  EXPECT_EQ(tasks[0].level(), 2);
  EXPECT_THAT(tasks[0].prompt(), HasSubstr(kReference));
  EXPECT_EQ(tasks[1].scaffold().middle(), "b");
  EXPECT_THAT(MakePrompt(tasks[1], INFILL_FORCED),
              testing::EndsWith("<|im_start|>assistant\n```python\n"));
  EXPECT_EQ(
      *MakeCandidate(tasks[1], END_TO_END, tasks[1].solutions(0).response()),
      "abc\n");

  json broken = list;
  broken[1]["suffix"] = "d";
  EXPECT_THAT(
      std::string(
          LoadTasks(Write("broken.json", broken.dump())).status().message()),
      HasSubstr("entry 1: prefix + middle + suffix is not cuda_code"));
}

TEST(TasksTest, LoadsKernelBenchListsAndFolders) {
  const json list = {
      {{"problem_id", 23}, {"name", "Softmax"}, {"code", kReference}}};
  const auto one = *LoadTasks(Write("kernelbench_level1_50.json", list.dump()));
  EXPECT_EQ(one[0].id(), "kernelbench_level1_50/23");
  EXPECT_EQ(one[0].level(), 1);
  EXPECT_EQ(one[0].family(), "Softmax");

  Write("kb/level1/10_Ten.py", kReference);
  Write("kb/level1/2_Two.py", kReference);
  const std::string folder =
      std::filesystem::path(Write("kb/level2/1_One.py", kReference))
          .parent_path()
          .parent_path();
  const auto tasks = *LoadTasks(folder);
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(tasks[0].id(), "level1/2_Two");
  EXPECT_EQ(tasks[1].id(), "level1/10_Ten");
  EXPECT_EQ(tasks[2].level(), 2);
  EXPECT_EQ(tasks[2].family(), "One");
  EXPECT_EQ(LoadTasks("/nonexistent").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TasksTest, DigestCoversWhatTheJudgeReadsAndNothingElse) {
  const Task task = Small();
  const std::string digest = TaskDigest(task);
  EXPECT_EQ(digest.size(), 64u);
  const auto changed = [&](auto change) {
    Task t = task;
    change(t);
    return TaskDigest(t) != digest;
  };
  EXPECT_TRUE(changed([](Task& t) { t.set_reference_source("x"); }));
  EXPECT_TRUE(changed([](Task& t) { t.set_naive_response("x"); }));
  EXPECT_TRUE(changed([](Task& t) { t.set_candidate_template("x"); }));
  EXPECT_TRUE(changed([](Task& t) { t.set_tolerance(0.5); }));
  EXPECT_FALSE(changed([](Task& t) { t.set_prompt("x"); }));
  EXPECT_FALSE(changed([](Task& t) { t.set_split("train"); }));
  EXPECT_FALSE(changed([](Task& t) { t.clear_solutions(); }));
}

TEST(TasksTest, CandidateOfATemplateIsTheWholeResponse) {
  Task t = Small();
  EXPECT_EQ(*MakeCandidate(t, END_TO_END, "p;\nm;\n}\n"),
            "head\np;\nm;\n}\ntail\n");
  // Forced: the response holds the prefix; the suffix is appended.
  EXPECT_EQ(*MakeCandidate(t, INFILL_FORCED, "p;\nm;\n"),
            *MakeCandidate(t, END_TO_END, "p;\nm;\n}\n"));
  // What the model writes is never a template itself.
  EXPECT_EQ(*MakeCandidate(t, END_TO_END, "{{response}}"),
            "head\n{{response}}tail\n");
  t.set_candidate_template("s = {{literal}}\n");
  EXPECT_EQ(*MakeCandidate(t, END_TO_END, "a\"b\\n\n\x01"),
            "s = \"a\\\"b\\\\n\\n\\x01\"\n");
}

TEST(TasksTest, CandidateWithoutATemplateIsTheFencedCode) {
  Task t = Small();
  t.clear_candidate_template();
  EXPECT_EQ(*MakeCandidate(t, END_TO_END, "Sure:\n```python\nx\n```\n"), "x\n");
  EXPECT_EQ(MakeCandidate(t, END_TO_END, "no code").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*MakeCandidate(t, INFILL_PROMPT_ONLY, "x\n```\n"), "x\n");
  EXPECT_EQ(*MakeCandidate(t, INFILL_FORCED, "p;\nm;\n"), "p;\nm;\n}\n");
  EXPECT_EQ(*MakeCandidate(t, INFILL_FORCED, "p;\nm;\n```\nbye"), "p;\nm;}\n");
  EXPECT_FALSE(MakeCandidate(t, INFILL_FORCED, "q;\n").ok());
}

TEST(TasksTest, SftSamplesAreWhatTheModesSample) {
  Task t = Small();
  t.set_infill_prompt("// fill x\n");
  const SftSample whole = MakeSftSample(t, t.solutions(0), true);
  EXPECT_EQ(whole.prompt, MakePrompt(t, END_TO_END));
  EXPECT_EQ(whole.forced, "");
  EXPECT_EQ(*MakeCandidate(t, END_TO_END, whole.trained),
            "head\np;\nm;\n}\ntail\n");
  const SftSample infill = MakeSftSample(t, t.solutions(0), false);
  EXPECT_EQ(infill.prompt, MakePrompt(t, INFILL_FORCED));
  EXPECT_EQ(infill.forced, ForcedPrefix(t, INFILL_FORCED));
  EXPECT_EQ(*MakeCandidate(t, INFILL_FORCED, infill.forced + infill.trained),
            "head\np;\nm;\n}\ntail\n");
}

}  // namespace
}  // namespace dice
