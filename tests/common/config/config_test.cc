#include "common/config/config.h"

#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "common/config/overrides.h"
#include "common/config/textproto.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kGood[] = R"pb(
  name: "tiny"
  model { config_json: "model.json" tokenizer_dir: "tok" }
  tasks { train_path: "tasks.jsonl" }
  stages {
    name: "sft"
    steps: 10
    optimizer { lr: 1e-3 }
    sft { batch_size: 8 }
  }
  stages {
    name: "end_to_end"
    steps: 5
    optimizer { lr: 1e-4 }
    rl {
      mode: END_TO_END
      tasks_per_step: 4
      responses_per_task: 4
      sampling { max_response_tokens: 64 }
      reward { w_correct: 1 }
    }
  }
)pb";

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_ / "tok");
    for (const char* f : {"model.json", "tasks.jsonl"}) std::ofstream(dir_ / f);
  }
  ~ConfigTest() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<Config> Load(const std::string& text,
                              const std::vector<std::string>& sets = {}) {
    std::ofstream(dir_ / "c.pbtxt") << text;
    return LoadConfig(dir_ / "c.pbtxt", sets);
  }
  // The violations of the good config after `sets`, as one text.
  std::string Complaint(const std::vector<std::string>& sets) {
    return std::string(Load(kGood, sets).status().message());
  }

  std::filesystem::path dir_;
};

TEST_F(ConfigTest, FillsDefaultsAndMakesPathsAbsolute) {
  const absl::StatusOr<Config> c = Load(kGood);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->tasks().train_path(), dir_ / "tasks.jsonl");
  EXPECT_EQ(c->stages(0).optimizer().beta1(), 0.9);
  EXPECT_EQ(c->stages(1).rl().reward().library_factor(), 0.3);
  EXPECT_EQ(c->stages(1).rl().sampling().temperature(), 1);
  EXPECT_EQ(c->evaluation().sampling().max_response_tokens(), 64);
  EXPECT_EQ(c->judge().device(), "auto");
}

TEST_F(ConfigTest, KeepsAnExplicitZeroOfAnOptionalField) {
  const auto c = Load(kGood, {"stages[1].rl.reward.library_factor=0",
                              "stages[1].rl.reward.speed_log2_min=0"});
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->stages(1).rl().reward().library_factor(), 0);
  EXPECT_EQ(c->stages(1).rl().reward().speed_log2_min(), 0);
}

TEST_F(ConfigTest, ReadsItsEffectiveConfigBackUnchanged) {
  const auto c = Load(kGood);
  ASSERT_TRUE(c.ok());
  const auto again = Load(PrintConfig(*c));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*c, *again));
}

TEST_F(ConfigTest, ListsEveryProblemAtOnceWithItsPlace) {
  const auto c = Load(
      "nam: \"x\"\n"
      "seed: minus\n"
      "model { config_json: \"gone.json\" colour: 3 }\n"
      "stages { name: \"rl\" steps: 0 rl { mode: SIDEWAYS\n } }\n",
      {"stages[0].steps=many", "judge.device=tpu"});
  ASSERT_EQ(c.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text(c.status().message());
  for (const char* part :
       {"c.pbtxt:1:4: ", "\"nam\"", "c.pbtxt:2:7: ", "c.pbtxt:3:", "\"colour\"",
        "SIDEWAYS", "--set stages[0].steps=many", "there is no ", "gone.json",
        "tasks.train_path: missing", "name: missing",
        "stages[0].name: is \"rl\"", "stages[0].steps: must be above 0",
        "judge.device: is \"tpu\""}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(ConfigTest, RefusesWhatBreaksTheImportanceRatio) {
  for (const char* set :
       {"stages[1].rl.sampling.temperature=0.7",
        "stages[1].rl.sampling.top_k=20", "stages[1].rl.sampling.top_p=0.9",
        "stages[1].rl.sampling.greedy=true"}) {
    EXPECT_THAT(Complaint({set}), AllOf(HasSubstr("1 problem"),
                                        HasSubstr("stages[1].rl.sampling.")))
        << set;
  }
}

TEST_F(ConfigTest, RefusesStalenessWithoutACorrection) {
  EXPECT_THAT(Complaint({"stages[1].rl.max_staleness=1"}),
              HasSubstr("importance_cap"));
  EXPECT_TRUE(Load(kGood, {"stages[1].rl.max_staleness=1",
                           "stages[1].rl.loss.importance_cap=2"})
                  .ok());
}

TEST_F(ConfigTest, RefusesMeasuredTimeWhereItCannotBeHad) {
  EXPECT_THAT(Complaint({"stages[1].rl.reward.w_speed=0.3"}),
              HasSubstr("judge.profile.timing"));
  EXPECT_THAT(
      Complaint({"stages[1].rl.reward.w_speed=0.3", "judge.profile.timing=true",
                 "stages[1].rl.deterministic=true"}),
      HasSubstr("bit for bit"));
}

TEST_F(ConfigTest, NamesAndKindsOfStagesAgree) {
  EXPECT_THAT(Complaint({"stages[1].rl.mode=INFILL_FORCED"}),
              HasSubstr("stages[1].name"));
  EXPECT_THAT(Complaint({"stages[0].name=infill"}),
              HasSubstr("an sft stage is called sft"));
}

TEST_F(ConfigTest, SaysWhichFileIsMissing) {
  EXPECT_EQ(LoadConfig(dir_ / "none.pbtxt").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(OverrideTest, SetsScalarsEnumsStringsAndMessages) {
  Config c;
  for (const char* set :
       {"seed=7", "stages[0].name=sft", "stages[0].optimizer.lr=1e-3",
        "stages[0].sft.rate_per_block=true", "stages[1].name=infill",
        "stages[1].rl.schedule=BY_DIFFICULTY", "stages[infill].steps=9",
        "model.dtype=bf16", "judge.profile={seeds: 4}"}) {
    EXPECT_EQ(ApplyOverride(set, &c), absl::OkStatus());
  }
  EXPECT_EQ(c.seed(), 7);
  EXPECT_EQ(c.stages(0).optimizer().lr(), 1e-3);
  EXPECT_TRUE(c.stages(0).sft().rate_per_block());
  EXPECT_EQ(c.stages(1).rl().schedule(), BY_DIFFICULTY);
  EXPECT_EQ(c.stages(1).steps(), 9);
  EXPECT_EQ(c.judge().profile().seeds(), 4);
}

TEST(OverrideTest, SaysWhatIsWrongWithAPath) {
  Config c;
  c.add_stages()->mutable_sft();
  const std::pair<const char*, const char*> cases[] = {
      {"seed", "path=value"},
      {"stages.steps=1", "needs an index"},
      {"stages[7].steps=1", "there are 1"},
      {"stages[x].steps=1", "is called x"},
      {"stages[0]x.steps=1", "field[index]"},
      {"model.colour=1", "it has config_json"},
      {"model[0].dtype=1", "takes no index"},
      {"seed.x=1", "has no fields"},
      {"seed=-1", "no value for seed"},
      {"stages[0].steps=1 2", "no value"},
      {"stages[0].rl.minibatches=2", "it holds sft, not rl"},
      {"stages[0]=x", "name the field"},
  };
  for (const auto& [set, why] : cases) {
    const absl::Status s = ApplyOverride(set, &c);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << set;
    EXPECT_THAT(std::string(s.message()), HasSubstr(why)) << set;
  }
}

TEST(TextprotoTest, GoesOnAfterABadLine) {
  Config c;
  EXPECT_THAT(ParseTextproto("seed: x\njudge {\n queue_limit: y\n"
                             " worker_slots: 3\n}\nname: \"n\"\n",
                             "f", &c),
              ElementsAre(HasSubstr("f:1:7:"), HasSubstr("f:3:15:")));
  EXPECT_EQ(c.name(), "n");
  EXPECT_EQ(c.judge().worker_slots(), 3);
}

TEST(TextprotoTest, StopsWhereBracesDoNotMatch) {
  Config c;
  EXPECT_THAT(ParseTextproto("judge {\n", "f", &c), Not(IsEmpty()));
}

}  // namespace
}  // namespace dice
