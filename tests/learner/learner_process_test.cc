// dice-learner as processes: ranks, signals, resume, exit codes.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/model/safetensors.h"
#include "common/tasks/tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "learner/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/testing/free_port.h"

namespace dice {
namespace {

namespace fs = std::filesystem;

// A byte-level vocabulary of GPT-2's 256 byte characters and no merges.
void WriteTokenizer(const std::string& dir) {
  nlohmann::json vocab;
  int next = 256, id = 0;
  for (int b = 0; b < 256; ++b) {
    const bool shown = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
                       (b >= 0xae && b <= 0xff);
    const int code = shown ? b : next++;
    std::string utf8;
    if (code < 0x80) {
      utf8 = static_cast<char>(code);
    } else {
      utf8 = {static_cast<char>(0xc0 | code >> 6),
              static_cast<char>(0x80 | (code & 0x3f))};
    }
    vocab[utf8] = id++;
  }
  std::ofstream(dir + "/vocab.json") << vocab.dump();
  std::ofstream(dir + "/merges.txt") << "#version: 0.2\n";
}

void WriteModel(const std::string& path) {
  std::ofstream(path) << R"({"model_type": "sdar", "vocab_size": 258,
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
    "block_size": 4, "mask_token_id": 256, "eos_token_id": [257]})";
}

class LearnerProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "/learner_process_", getpid());
    fs::remove_all(root_);
    ASSERT_TRUE(MakeDirs(root_).ok());
    WriteTokenizer(root_);
    WriteModel(root_ + "/model.json");
    std::vector<Task> tasks(12);
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].set_id(absl::StrCat("t", i));
      tasks[i].set_split("train");
      tasks[i].set_prompt(absl::StrCat("task ", i, ": "));
      tasks[i].set_reference_source("class Model: pass\n");
      tasks[i].set_candidate_template("{{response}}");
      Solution* s = tasks[i].add_solutions();
      s->set_quality("good");
      s->set_response(absl::StrCat("x = ", i * 7, ";"));
    }
    ASSERT_TRUE(SaveTasksJsonl(root_ + "/tasks.jsonl", tasks).ok());
    WriteConfig("");
  }
  void TearDown() override {
    if (HasFailure()) {
      for (const auto& entry : fs::directory_iterator(root_)) {
        if (entry.path().extension() != ".log") continue;
        std::cerr << "== " << entry.path() << "\n"
                  << ReadFile(entry.path()).value_or("");
      }
    }
    fs::remove_all(root_);
  }

  void WriteConfig(const std::string& more) {
    std::ofstream(root_ + "/config.pbtxt")
        << "name: \"t\" seed: 5 model { config_json: \"" << root_
        << "/model.json\" tokenizer_dir: \"" << root_
        << "\" } tasks { train_path: \"" << root_ << "/tasks.jsonl\" }\n"
        << "stages { name: \"sft\" steps: 40 optimizer { lr: 0.01 }\n"
        << "  sft { mask_rate_min: 0.3 batch_size: 8 } }\n"
        << "topology { learner_threads: 1 }\n"
        << more;
  }

  // One rank of `size`.
  std::unique_ptr<Process> Start(const std::string& run,
                                 std::vector<std::string> flags, int rank = 0,
                                 int size = 1, int port = 0) {
    const std::string log = absl::StrCat(root_, "/", run, ".", rank, ".log");
    Process::Options o;
    o.argv = {std::string(std::getenv("DICE_BUILD_DIR")) +
                  "/learner/dice-learner",
              "--config", root_ + "/config.pbtxt", "--run-dir",
              root_ + "/" + run, "--ready-file",
              absl::StrCat(root_, "/", run, ".ready")};
    o.argv.insert(o.argv.end(), flags.begin(), flags.end());
    o.env = {{"RANK", absl::StrCat(rank)},
             {"WORLD_SIZE", absl::StrCat(size)},
             {"MASTER_PORT", absl::StrCat(port)}};
    o.stdout_path = o.stderr_path = log;
    return *Process::Spawn(o);
  }
  int Wait(Process& p) {
    const auto status = p.Wait(Clock::Real().Now() + absl::Seconds(100));
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() && status->signal == 0 ? status->code : -1;
  }
  std::string Log(const std::string& run) {
    return ReadFile(absl::StrCat(root_, "/", run, ".0.log")).value_or("");
  }
  size_t Rows(const std::string& run) {
    const auto text = ReadFile(root_ + "/" + run + "/metrics.jsonl");
    return text.ok() ? std::count(text->begin(), text->end(), '\n') : 0;
  }
  void AwaitRows(const std::string& run, size_t rows) {
    const absl::Time deadline = Clock::Real().Now() + absl::Seconds(60);
    while (Rows(run) < rows && Clock::Real().Now() < deadline) {
      Clock::Real().Sleep(absl::Milliseconds(5));
    }
  }
  std::string Weights(const std::string& run) {
    const auto c = LoadLatestCheckpoint(root_ + "/" + run);
    EXPECT_TRUE(c.ok()) << c.status();
    return c.ok() ? c->weights : "";
  }

  std::string root_;
};

TEST_F(LearnerProcessTest, TwoRanksTrainAsOneDoes) {
  EXPECT_EQ(Wait(*Start("one", {})), 0);
  const int port = FreePort();
  auto rank0 = Start("two", {}, 0, 2, port);
  auto rank1 = Start("two", {}, 1, 2, port);
  EXPECT_EQ(Wait(*rank0), 0);
  EXPECT_EQ(Wait(*rank1), 0);
  const auto a = ParseSafetensors(Weights("one"));
  const auto b = ParseSafetensors(Weights("two"));
  ASSERT_TRUE(a.ok() && b.ok());
  for (size_t i = 0; i < a->size(); ++i) {
    EXPECT_LE(((*a)[i].second - (*b)[i].second).abs().max().item<double>(),
              1e-3)
        << (*a)[i].first;
  }
  EXPECT_TRUE(fs::exists(root_ + "/two/summary.json"));
}

TEST_F(LearnerProcessTest, SigtermCheckpointsAndResumeEqualsTheUnbrokenRun) {
  const std::vector<std::string> longer = {"--set", "stages[0].steps=300"};
  EXPECT_EQ(Wait(*Start("whole", longer)), 0);
  auto first = Start("broken", longer);
  AwaitRows("broken", 3);
  first->Kill(SIGTERM);
  EXPECT_EQ(Wait(*first), 0);
  const size_t done = Rows("broken");
  EXPECT_LT(done, 300u) << "it was too fast to be stopped";
  EXPECT_EQ(LoadLatestCheckpoint(root_ + "/broken")->state.step(),
            static_cast<int64_t>(done));

  EXPECT_EQ(Wait(*Start("broken", longer)), 2) << "not without --resume";
  auto resumed = longer;
  resumed.push_back("--resume");
  EXPECT_EQ(Wait(*Start("broken", resumed)), 0);
  EXPECT_EQ(Rows("broken"), 300u);
  EXPECT_EQ(Weights("broken"), Weights("whole"));
}

TEST_F(LearnerProcessTest, AKilledRankEndsTheGang) {
  const int port = FreePort();
  const std::vector<std::string> endless = {"--set", "stages[0].steps=1000000"};
  auto rank0 = Start("gang", endless, 0, 2, port);
  auto rank1 = Start("gang", endless, 1, 2, port);
  AwaitRows("gang", 3);
  rank1->Kill(SIGKILL);
  EXPECT_EQ(Wait(*rank0), 3);
  EXPECT_THAT(Log("gang"), testing::HasSubstr("UNAVAILABLE"));
}

TEST_F(LearnerProcessTest, ABadConfigurationIsListedWhole) {
  WriteConfig(R"(stages { name: "infill" steps: 1 optimizer { lr: 1 }
    rl { mode: INFILL_FORCED tasks_per_step: 1 responses_per_task: 4
         max_staleness: 1
         sampling { max_response_tokens: 8 temperature: 0.7 top_k: 3 }
         reward { w_correct: 1 } } })");
  EXPECT_EQ(Wait(*Start("bad", {"--dry-run"})), 2);
  EXPECT_THAT(Log("bad"),
              testing::AllOf(testing::HasSubstr("temperature"),
                             testing::HasSubstr("top_k"),
                             testing::HasSubstr("importance_cap")));
}

TEST_F(LearnerProcessTest, PrintsTheEffectiveConfiguration) {
  EXPECT_EQ(Wait(*Start("print", {"--print-config", "--set", "seed=77"})), 0);
  EXPECT_THAT(Log("print"), testing::HasSubstr("seed: 77"));
  EXPECT_FALSE(fs::exists(root_ + "/print"));
}

}  // namespace
}  // namespace dice
