#include "cli/tasks.h"

#include "absl/strings/str_cat.h"
#include "common/tasks/tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice::cli {
namespace {

std::vector<Task> Kernels(int n) {
  std::vector<Task> out(n);
  for (int i = 0; i < n; ++i) {
    out[i].set_id(absl::StrCat("k/", i));
    out[i].set_reference_source(absl::StrCat("class Model: x = ", i, "\n"));
    out[i].set_prompt("p");
    Solution& s = *out[i].add_solutions();
    s.set_quality("good");
    s.set_response(
        "```python\nimport torch\nsource = \"\"\"\n__global__ void a(float* o) "
        "{\n  o[0] = 1;\n}\n__global__ void b(float* o) {\n  o[1] = 1;\n}\n"
        "\"\"\"\n```\n");
  }
  return out;
}

TEST(CutTasksTest, MakesOneValidTaskPerPlace) {
  const auto cut = CutTasks(Kernels(1), ScaffoldCut::kKernelBody, 0);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].id(), "k/0/0");
  EXPECT_EQ(cut[1].scaffold().middle(), "  o[1] = 1;\n");
  EXPECT_THAT(cut[1].infill_prompt(), testing::HasSubstr("Model: x = 0"));
  // The middle after the forced prefix makes the kernel again.
  for (const Task& t : cut) {
    EXPECT_TRUE(TaskViolations(t).empty());
    EXPECT_EQ(*MakeCandidate(t, INFILL_FORCED,
                             t.scaffold().prefix() + t.scaffold().middle()),
              *MakeCandidate(t, END_TO_END, t.solutions(0).response()));
  }
}

TEST(CutTasksTest, HoldsOutWholeProblems) {
  const auto cut = CutTasks(Kernels(400), ScaffoldCut::kKernel, 0.25);
  ASSERT_EQ(cut.size(), 800u);
  int heldout = 0;
  for (size_t i = 0; i < cut.size(); i += 2) {
    EXPECT_EQ(cut[i].split(), cut[i + 1].split());
    heldout += cut[i].split() == "heldout";
  }
  EXPECT_GT(heldout, 60);
  EXPECT_LT(heldout, 140);
}

TEST(CutTasksTest, LeavesOutWhatHasNoCompleteKernel) {
  auto tasks = Kernels(2);
  tasks[0].set_candidate_template("{{response}}");
  tasks[1].clear_solutions();
  EXPECT_TRUE(CutTasks(tasks, ScaffoldCut::kKernel, 0.1).empty());
}

}  // namespace
}  // namespace dice::cli
