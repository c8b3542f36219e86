#include "learner/sft_data.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

// One id a byte.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> Encode(absl::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::string Decode(std::span<const int32_t> ids) const override {
    return {ids.begin(), ids.end()};
  }
  std::optional<int32_t> TokenToId(absl::string_view) const override {
    return std::nullopt;
  }
  int32_t vocab_size() const override { return 128; }
};

constexpr int32_t kEnd = 1, kPad = 2;

std::vector<Task> MakeTasks(int n) {
  std::vector<Task> tasks(n);
  for (int i = 0; i < n; ++i) {
    tasks[i].set_id(absl::StrCat("t", i));
    tasks[i].set_prompt(absl::StrCat("task ", i, ":"));
    for (const char* quality : {"naive", "good", "good"}) {
      Solution* s = tasks[i].add_solutions();
      s->set_quality(quality);
      s->mutable_scaffold()->set_prefix("PRE ");
      s->mutable_scaffold()->set_middle(absl::StrCat(quality, " middle"));
      s->mutable_scaffold()->set_suffix(" END");
      s->set_response(absl::StrCat("PRE ", quality, " middle END"));
    }
  }
  return tasks;
}

SftData::Options Options(double good, double whole) {
  SftData::Options o;
  o.stage.set_mask_rate_min(0.4);
  o.stage.set_mask_rate_max(1);
  o.stage.set_batch_size(16);
  o.stage.set_good_fraction(good);
  o.stage.set_whole_fraction(whole);
  o.end_id = kEnd;
  o.pad_id = kPad;
  return o;
}

std::string Text(const TrainBatchSequence& s) {
  std::string out;
  for (const int32_t id : s.tokens()) {
    if (id != kEnd && id != kPad) out.push_back(static_cast<char>(id));
  }
  return out;
}

TEST(SftDataTest, TargetsEndAndFillTheirBlockAndPrefixesAreNoTargets) {
  const auto data = *SftData::Create(Options(0, 0), MakeTasks(3),
                                     ByteTokenizer());
  EXPECT_EQ(data->num_solutions(), 9);
  const TrainBatch batch = data->MakeBatch(0);
  ASSERT_EQ(batch.groups_size(), 16);
  double labels = 0;
  for (const TrainBatchGroup& g : batch.groups()) {
    const TrainBatchSequence& s = g.responses(0);
    const int n = s.tokens_size();
    EXPECT_EQ((g.prompt_size() + n) % 4, 0);
    EXPECT_EQ(s.num_trained(), n);
    EXPECT_THAT(Text(s), testing::StartsWith("PRE "));
    EXPECT_THAT(Text(s), testing::EndsWith("middle")) << "no suffix";
    const int end = static_cast<int>(Text(s).size());
    EXPECT_EQ(s.tokens(end), kEnd);
    for (int i = end + 1; i < n; ++i) EXPECT_EQ(s.tokens(i), kPad);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(s.steps(i), 0) << "a prefix token";
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(s.steps(i) > 0, s.weights(i) > 0);
      if (s.steps(i) > 0) {
        EXPECT_GE(s.weights(i), 1);
        EXPECT_LE(s.weights(i), 2.51) << "1 / 0.4";
      }
    }
    labels += n - 4;
  }
  EXPECT_EQ(batch.label_tokens(), labels);
}

TEST(SftDataTest, WholeSamplesAreTargetsFromTheFirstToken) {
  const auto data = *SftData::Create(Options(0, 1), MakeTasks(3),
                                     ByteTokenizer());
  int first = 0;
  const TrainBatch batch = data->MakeBatch(0);
  for (const TrainBatchGroup& g : batch.groups()) {
    EXPECT_THAT(Text(g.responses(0)), testing::EndsWith(" END"));
    first += g.responses(0).steps(0) > 0;
  }
  EXPECT_GT(first, 0);
}

TEST(SftDataTest, GoodSolutionsGetTheirShare) {
  for (const double share : {0.1, 0.9}) {
    const auto data = *SftData::Create(Options(share, 0), MakeTasks(8),
                                       ByteTokenizer());
    double good = 0;
    for (int step = 0; step < 40; ++step) {
      const TrainBatch batch = data->MakeBatch(step);
      for (const TrainBatchGroup& g : batch.groups()) {
        good += Text(g.responses(0)) == "PRE good middle";
      }
    }
    EXPECT_NEAR(good / 640, share, 0.05);
  }
}

TEST(SftDataTest, AnEpochShowsEveryTaskOnceAndAStepIsAFunctionOfItsNumber) {
  const auto tasks = MakeTasks(32);
  const auto data = *SftData::Create(Options(0, 0), tasks, ByteTokenizer());
  std::set<std::string> prompts;
  for (const int step : {0, 1}) {
    const TrainBatch batch = data->MakeBatch(step);
    for (const TrainBatchGroup& g : batch.groups()) {
      EXPECT_TRUE(
          prompts.insert({g.prompt().begin(), g.prompt().end()}).second);
    }
  }
  EXPECT_EQ(prompts.size(), 32u);
  const auto again = *SftData::Create(Options(0, 0), tasks, ByteTokenizer());
  EXPECT_EQ(again->MakeBatch(7).SerializeAsString(),
            data->MakeBatch(7).SerializeAsString());
  EXPECT_NE(data->MakeBatch(8).SerializeAsString(),
            data->MakeBatch(7).SerializeAsString());
}

TEST(SftDataTest, MaskingRatesAreStratifiedOverTheBatch) {
  const auto data = *SftData::Create(Options(0, 0), MakeTasks(3),
                                     ByteTokenizer());
  std::vector<double> rates;
  const TrainBatch batch = data->MakeBatch(0);
  for (const TrainBatchGroup& g : batch.groups()) {
    for (const float w : g.responses(0).weights()) {
      if (w > 0) {
        rates.push_back(1 / w);
        break;
      }
    }
  }
  std::sort(rates.begin(), rates.end());
  // One rate in each sixteenth of [0.4, 1).
  ASSERT_EQ(rates.size(), 16u);
  for (int i = 0; i < 16; ++i) {
    EXPECT_GE(rates[i], 0.4 + 0.6 * i / 16 - 1e-3);
    EXPECT_LE(rates[i], 0.4 + 0.6 * (i + 1) / 16 + 2e-3);
  }
}

TEST(SftDataTest, NeedsSolutions) {
  std::vector<Task> tasks = MakeTasks(1);
  tasks[0].clear_solutions();
  EXPECT_TRUE(absl::IsInvalidArgument(
      SftData::Create(Options(0, 0), tasks, ByteTokenizer()).status()));
}

}  // namespace
}  // namespace dice
