// The quickstart's files are what its scripts make, and fit each other.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/config/config.h"
#include "common/tasks/scaffold.h"
#include "common/tasks/tasks.h"
#include "common/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

std::string Source(const std::string& path) {
  return JoinPath(std::getenv("DICE_SOURCE_DIR"), path);
}
const std::string kFolder = "deploy/quickstart/";

std::vector<Task> Shipped() {
  auto tasks = LoadTasks(Source(kFolder + "tasks.jsonl.gz"));
  EXPECT_TRUE(tasks.ok()) << tasks.status();
  return tasks.ok() ? *tasks : std::vector<Task>();
}

int RunPython(const std::string& arguments) {
  const std::string command =
      absl::StrCat(std::getenv("DICE_PYTHON"), " ", arguments);
  return std::system(command.c_str());
}

TEST(QuickstartSetTest, IsWhatItsScriptsMakeFromTheSeed) {
  const std::string dir = testing::TempDir() + "/quickstart_made";
  std::filesystem::create_directories(dir);
  const std::string tasks = dir + "/tasks.jsonl.gz";
  ASSERT_EQ(
      RunPython(absl::StrCat(Source("tools/quickstart/make_tasks.py "), tasks)),
      0);
  // Decompressed: the bytes of a .gz depend on zlib's version.
  const auto made = *LoadTasks(tasks), shipped = Shipped();
  ASSERT_EQ(made.size(), shipped.size());
  for (size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].SerializeAsString(), shipped[i].SerializeAsString())
        << made[i].id();
  }
  ASSERT_EQ(
      RunPython(absl::StrCat(Source("tools/quickstart/train_tokenizer.py "),
                             tasks, " ", dir, "/tokenizer")),
      0);
  EXPECT_EQ(*ReadFile(dir + "/tokenizer/tokenizer.json"),
            *ReadFile(Source(kFolder + "tokenizer/tokenizer.json")));
}

TEST(QuickstartSetTest, HasEnoughProblemsAndHoldsOutWholeOnes) {
  std::map<std::string, int> count, families;
  std::map<std::string, std::string> split_of;  // by prompt
  for (const Task& t : Shipped()) {
    ++count[t.split()];
    ++families[t.family()];
    // One prompt, one problem: it is in one split, once.
    EXPECT_TRUE(split_of.emplace(t.prompt(), t.split()).second) << t.prompt();
    ASSERT_EQ(t.solutions_size(), 2) << t.id();
    EXPECT_EQ(t.solutions(0).quality(), "naive");
    EXPECT_EQ(t.solutions(1).quality(), "good");
    EXPECT_EQ(t.naive_response(), t.solutions(0).response());
    EXPECT_NE(t.naive_response(), t.solutions(1).response());
    EXPECT_EQ(t.solutions(0).scaffold().prefix(), t.scaffold().prefix());
    EXPECT_EQ(t.solutions(0).scaffold().suffix(), t.scaffold().suffix());
  }
  EXPECT_GE(count["train"], 800);
  EXPECT_GE(count["heldout"], 100);
  EXPECT_GE(families.size(), 10u);
}

TEST(QuickstartSetTest, CandidatesAreWholeFilesWithOneKernelAndOneLauncher) {
  for (const Task& t : Shipped()) {
    for (const Solution& s : t.solutions()) {
      const auto candidate = MakeCandidate(t, END_TO_END, s.response());
      ASSERT_TRUE(candidate.ok()) << candidate.status();
      ASSERT_EQ(*candidate,
                *MakeCandidate(t, INFILL_FORCED,
                               s.scaffold().prefix() + s.scaffold().middle()));
      const auto kernels = CutScaffolds(*candidate, ScaffoldCut::kKernel);
      ASSERT_TRUE(kernels.ok()) << t.id() << kernels.status();
      ASSERT_EQ(kernels->size(), 1u);
      ASSERT_EQ(CutScaffolds(*candidate, ScaffoldCut::kLauncher)->size(), 1u);
    }
  }
}

TEST(QuickstartSetTest, StatementsAreTokensAndPartsTokeniseAlone) {
  const auto tokenizer = *Tokenizer::Load(Source(kFolder + "tokenizer"));
  std::vector<size_t> middles;
  for (const Task& t : Shipped()) {
    EXPECT_LE(tokenizer->Encode(t.prompt()).size(), 12u);
    for (const Solution& s : t.solutions()) {
      std::vector<int32_t> parts;
      for (const std::string& part :
           {s.scaffold().prefix(), s.scaffold().middle(),
            s.scaffold().suffix()}) {
        const auto ids = tokenizer->Encode(part);
        parts.insert(parts.end(), ids.begin(), ids.end());
      }
      // Sampled after a forced prefix or as a whole: the same tokens.
      ASSERT_EQ(parts, tokenizer->Encode(s.response()));
      EXPECT_LT(parts.size(), 38u);  // the configuration's cap is 40
      middles.push_back(tokenizer->Encode(s.scaffold().middle()).size());
    }
  }
  std::nth_element(middles.begin(), middles.begin() + middles.size() / 2,
                   middles.end());
  EXPECT_LE(middles[middles.size() / 2], 12u);
  EXPECT_EQ(tokenizer->TokenToId("<|im_end|>"), 1);
  EXPECT_EQ(tokenizer->TokenToId("<|mask|>"), 2);
}

TEST(QuickstartParityTest, TokenisesAllTextsAsHfTokenizers) {
  const std::string out = testing::TempDir() + "/quickstart_ids.jsonl";
  ASSERT_EQ(
      RunPython(absl::StrCat(Source("tests/deploy/encode_tasks.py "),
                             Source(kFolder + "tokenizer/tokenizer.json "),
                             Source(kFolder + "tasks.jsonl.gz"), " > ", out)),
      0);
  const auto tokenizer = *Tokenizer::Load(Source(kFolder + "tokenizer"));
  std::ifstream lines(out);
  std::string line;
  int count = 0;
  const auto expect = [&](const std::string& text) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto ids = nlohmann::json::parse(line).get<std::vector<int32_t>>();
    ASSERT_EQ(tokenizer->Encode(text), ids) << text;
    ASSERT_EQ(tokenizer->Decode(ids), text);
    ++count;
  };
  for (const Task& t : Shipped()) {
    expect(t.prompt());
    expect(t.infill_prompt());
    for (const Solution& s : t.solutions()) {
      expect(s.scaffold().prefix());
      expect(s.scaffold().middle());
      expect(s.scaffold().suffix());
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(count, 8 * 980);
}

TEST(QuickstartConfigTest, IsValidAndFitsModelAndTokenizer) {
  const auto config = LoadConfig(Source(kFolder + "config.pbtxt"));
  ASSERT_TRUE(config.ok()) << config.status();
  const auto model =
      nlohmann::json::parse(*ReadFile(Source(kFolder + "model/config.json")));
  const auto tokenizer = *Tokenizer::Load(Source(kFolder + "tokenizer"));
  EXPECT_EQ(model["vocab_size"], tokenizer->vocab_size());
  EXPECT_EQ(model["mask_token_id"], *tokenizer->TokenToId("<|mask|>"));
  EXPECT_EQ(model["eos_token_id"][0], *tokenizer->TokenToId("<|im_end|>"));
  std::map<std::string, int> split;
  for (const Task& t : Shipped()) ++split[t.split()];
  EXPECT_LE(config->evaluation().heldout_tasks(), split["heldout"]);
  EXPECT_LE(config->evaluation().train_tasks(), split["train"]);
}

}  // namespace
}  // namespace dice
