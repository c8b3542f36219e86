// Whole runs in one process: the real driver, trainer and sampler; the actor is
// a thread and the judge a rule.
#include "learner/driver.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actor/sampler.h"
#include "common/base/file.h"
#include "common/base/thread.h"
#include "common/config/config.h"
#include "common/config/textproto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/learner/rollouts.h"
#include "tests/learner/tiny_model.h"

namespace dice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// 'a'..'k' are ids 1..11; id 0 is the end.
class LetterTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> Encode(absl::string_view text) const override {
    std::vector<int32_t> out;
    for (const char c : text) out.push_back(c - 'a' + 1);
    return out;
  }
  std::string Decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (id > 0) out.push_back(static_cast<char>('a' + id - 1));
    }
    return out;
  }
  std::optional<int32_t> TokenToId(absl::string_view) const override {
    return std::nullopt;
  }
  int32_t vocab_size() const override { return 12; }
};

std::vector<Task> MakeTasks(const std::string& split, int n) {
  std::vector<Task> out(n);
  for (int i = 0; i < n; ++i) {
    out[i].set_id(absl::StrCat(split, i));
    out[i].set_prompt(std::string(1 + i % 5, static_cast<char>('a' + i % 7)));
    out[i].set_candidate_template("{{response}}");
    out[i].set_split(split);
    out[i].add_solutions()->set_response("cdefg");
  }
  return out;
}

// Right when it begins with 'c'; the more 'd' the faster.
Verdict Judge(const std::string& text) {
  if (text.empty()) return MakeVerdict(COMPILE_ERROR);
  if (text[0] != 'c') return MakeVerdict(WRONG_RESULT);
  return MakeVerdict(CORRECT, 1.5 + std::count(text.begin(), text.end(), 'd'));
}

constexpr char kConfig[] = R"(
  name: "t" seed: 3
  stages { name: "sft" steps: 6 optimizer { lr: 0.01 }
    sft { mask_rate_min: 0.4 batch_size: 8 } }
  stages { name: "end_to_end" steps: 5 optimizer { lr: 0.003 clip_norm: 1 }
    rl { mode: END_TO_END tasks_per_step: 3 responses_per_task: 6
         sampling { max_response_tokens: 8 }
         loss { importance_cap: 2 }
         reward { w_compile: 0.1 w_correct: 0.6 w_speed: 0.3 } } }
  evaluation { heldout_tasks: 2 train_tasks: 3 samples_per_task: 2 greedy: true }
  judge { profile { timing: true } }
  checkpointing { every_steps: 4 keep: 5 }
)";

// Everything of one learner process, and an actor beside it.
class DriverRun {
 public:
  explicit DriverRun(const Config& config, const std::string& dir)
      : config_(config), dir_(dir) {
    auto checkpoint = LoadLatestCheckpoint(dir);
    TrainState state;
    state.set_run_id("t-1");
    if (checkpoint.ok()) {
      EXPECT_TRUE(lm_->LoadWeights(checkpoint->weights).ok());
      state = checkpoint->state;
    }
    record_ = *RunRecord::Create(dir, state.metrics_rows(), live_);
    policies_ = std::make_unique<PolicyBoard>(
        "t-1", absl::ToUnixNanos(clock_.Now()), clock_);
    driver_ = std::make_unique<Driver>(
        Driver::Deps{.config = config_,
                     .train = train_,
                     .heldout = heldout_,
                     .tokenizer = tokenizer_,
                     .lm = *lm_,
                     .trainer = trainer_,
                     .leases = leases_,
                     .policies = *policies_,
                     .record = *record_,
                     .metrics = metrics_,
                     .progress = health_.AddProgressClock("d", absl::Hours(1)),
                     .clock = clock_},
        dir, state);
    if (checkpoint.ok()) {
      driver_->SetRestored({checkpoint->optimizer, checkpoint->reference});
    }
  }

  // Until the end, or until the actor sees `stop_at`.
  absl::Status Go(int64_t stop_at = -1) {
    std::stop_source stop;
    const std::jthread actor =
        StartThread("actor", [&](std::stop_token mine) {
          Act(mine, stop_at, stop);
        });
    const absl::Status status = driver_->Run(stop.get_token());
    leases_.Close();
    return status;
  }
  // What the actor does with a lease instead of working; false: it works.
  std::function<bool(const Lease&)> sabotage;
  std::function<Verdict(const std::string&)> judge = Judge;

  std::string Weights() { return *lm_->SerializeWeights(); }
  LeaseTable& leases() { return leases_; }
  const std::string live() const { return live_.str(); }

 private:
  void Act(std::stop_token mine, int64_t stop_at, std::stop_source& stop) {
    at::set_num_threads(1);
    auto lm = *DiffusionLm::Create(TinyConfig(), 0);
    std::shared_ptr<const PublishedPolicy> policy;
    while (!mine.stop_requested() && !leases_.closed()) {
      const auto leases =
          leases_.Take(1, clock_.Now() + absl::Milliseconds(20));
      if (leases.empty()) continue;
      const Lease& lease = leases[0];
      if (sabotage && sabotage(lease)) continue;
      if (auto newer = policies_->AwaitNewer(
              policy == nullptr ? -1 : policy->identity.version(),
              clock_.Now())) {
        policy = std::move(newer);
        EXPECT_TRUE(lm->LoadWeights(policy->safetensors).ok());
      }
      EXPECT_GE(policy->identity.version(), lease.min_version());
      if (policy->identity.version() == stop_at) stop.request_stop();
      leases_.Complete(lease.lease_id(), lease.attempt(),
                       Sample(*lm, lease, policy->identity), true);
    }
  }

  std::vector<Rollout> Sample(DiffusionLm& lm, const Lease& lease,
                              const WeightsIdentity& identity) {
    Sampler sampler(lm, {});
    sampler.SetIdentity(identity);
    const auto prompt = tokenizer_.Encode(lease.task().prompt());
    for (int g = 0; g < lease.num_samples(); ++g) {
      sampler.Add({.id = static_cast<uint64_t>(g),
                   .prompt = prompt,
                   .key = StreamKey(lease.run_seed())
                              .Derive({static_cast<uint64_t>(lease.stage()),
                                       static_cast<uint64_t>(
                                           lease.task_ordinal()),
                                       static_cast<uint64_t>(g)}),
                   .config = lease.sampling()});
    }
    std::vector<Rollout> out(lease.num_samples());
    while (sampler.pending() > 0) {
      sampler.Step([&](uint64_t id, Response r) {
        Rollout& o = out[id];
        o.set_task_id(lease.task().id());
        o.set_sample_index(static_cast<int>(id));
        o.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
        o.set_text(tokenizer_.Decode(
            {r.token_ids().data(), static_cast<size_t>(r.num_trained())}));
        *o.mutable_verdict() = judge(o.text());
        *o.mutable_response() = std::move(r);
      });
    }
    return out;
  }

  const Config config_;
  const std::string dir_;
  Clock& clock_ = Clock::Real();
  const std::vector<Task> train_ = MakeTasks("train", 8);
  const std::vector<Task> heldout_ = MakeTasks("heldout", 4);
  const LetterTokenizer tokenizer_;
  std::unique_ptr<DiffusionLm> lm_ = *DiffusionLm::Create(TinyConfig(), 3);
  std::unique_ptr<ProcessGroup> group_ = *CreateProcessGroup({}, {});
  Trainer trainer_{*lm_, *group_};
  MetricRegistry registry_;
  LearnerMetrics metrics_{registry_};
  Health health_;
  LeaseTable leases_{{.lease_duration = absl::Milliseconds(500)}, clock_};
  std::unique_ptr<PolicyBoard> policies_;
  std::ostringstream live_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<Driver> driver_;
};

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    root_ = absl::StrCat(testing::TempDir(), "/driver_test_", getpid());
    fs::remove_all(root_);
    ASSERT_THAT(ParseTextproto(kConfig, "config", &config_),
                testing::IsEmpty());
    FillDefaults(&config_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string Dir(const std::string& name) { return root_ + "/" + name; }
  RlStage* rl() { return config_.mutable_stages(1)->mutable_rl(); }

  static std::vector<json> Rows(const std::string& dir) {
    std::vector<json> out;
    for (const auto& line : absl::StrSplit(*ReadFile(dir + "/metrics.jsonl"),
                                           '\n', absl::SkipEmpty())) {
      out.push_back(json::parse(line));
    }
    return out;
  }
  static json Summary(const std::string& dir) {
    return json::parse(*ReadFile(dir + "/summary.json"));
  }

  std::string root_;
  Config config_;
};

TEST_F(DriverTest, DISABLED_RunsEveryStageAndLeavesTheWholeRecord) {
  const std::string dir = Dir("a");
  DriverRun run(config_, dir);
  const absl::Status status = run.Go();
  ASSERT_TRUE(status.ok()) << status;
  const auto rows = Rows(dir);
  ASSERT_EQ(rows.size(), 11u);
  EXPECT_EQ(rows[5]["stage"], "sft");
  EXPECT_TRUE(rows[5]["reward_mean"].is_null());
  EXPECT_LT(rows[5]["loss"], rows[0]["loss"]);
  for (int i = 6; i < 11; ++i) {
    EXPECT_EQ(rows[i]["stage"], "end_to_end");
    EXPECT_EQ(rows[i]["step"], i - 5);
    EXPECT_EQ(rows[i]["policy_version"], i + 1);
    EXPECT_EQ(rows[i]["staleness_mean"], 0);
    EXPECT_LT(rows[i]["kl"], 1e-5) << "on policy";
  }
  const json summary = Summary(dir);
  EXPECT_GT(summary["train_correct_sft"], 0);
  EXPECT_TRUE(summary.contains("heldout_reward_gain_lo"));
  EXPECT_EQ(summary["judge_calls"], 5 * 3 * 6 + 2 * 5 * 3);
  EXPECT_GT(summary["best_kernel"]["speedup"], 1);
  EXPECT_EQ(summary["best_kernel"]["source"].get<std::string>()[0], 'c');
  for (const char* file :
       {"evaluation_sft", "evaluation_final", "end_to_end_000005"}) {
    EXPECT_TRUE(fs::exists(dir + "/rollouts/" + file + ".jsonl")) << file;
  }
  const auto checkpoint = LoadLatestCheckpoint(dir);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->state.step(), 11);
  EXPECT_EQ(checkpoint->weights, run.Weights());
  EXPECT_THAT(run.live(), testing::HasSubstr("end_to_end    5/5"));
}

// S = 0: stopped anywhere and resumed, the weights equal the unbroken run's bit
// for bit, and every step is recorded once.
TEST_F(DriverTest, DISABLED_AResumedRunEqualsTheUnbrokenOneBitForBit) {
  DriverRun whole(config_, Dir("whole"));
  ASSERT_TRUE(whole.Go().ok());
  for (const int64_t stop_at : {6, 8, 10}) {
    const std::string dir = Dir(absl::StrCat("stopped", stop_at));
    {
      DriverRun first(config_, dir);
      EXPECT_TRUE(absl::IsCancelled(first.Go(stop_at)));
      EXPECT_FALSE(fs::exists(dir + "/summary.json"));
    }
    DriverRun second(config_, dir);
    const absl::Status status = second.Go();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(second.Weights(), whole.Weights()) << "stopped at " << stop_at;
    EXPECT_EQ(Rows(dir).size(), 11u);
    for (const char* key : {"train_reward_sft", "heldout_reward_final"}) {
      EXPECT_EQ(Summary(dir)[key], Summary(Dir("whole"))[key]) << key;
    }
  }
}

TEST_F(DriverTest, StaleSamplesAreBoundedByS) {
  rl()->set_max_staleness(1);
  DriverRun run(config_, Dir("a"));
  ASSERT_TRUE(run.Go().ok());
  double most = 0;
  for (const json& row : Rows(Dir("a"))) {
    if (row["stage"] != "sft") {
      most = std::max(most, row["staleness_mean"].get<double>());
    }
  }
  EXPECT_LE(most, 1);
}

TEST_F(DriverTest, EqualRewardsEndInProgressForEverySetting) {
  for (const ZeroVariance zero : {DROP, KEEP, REFILL}) {
    rl()->mutable_loss()->set_zero_variance(zero);
    const std::string dir = Dir(ZeroVariance_Name(zero));
    DriverRun run(config_, dir);
    run.judge = [](const std::string&) { return MakeVerdict(WRONG_RESULT); };
    const absl::Status status = run.Go();
    ASSERT_TRUE(status.ok()) << status;
    const auto rows = Rows(dir);
    ASSERT_EQ(rows.size(), 11u);
    EXPECT_EQ(rows[10]["groups_kept"], zero == KEEP ? 3 : 0);
    // A refill budget of four rounds of three.
    EXPECT_EQ(rows[10]["groups_zero_variance"], zero == REFILL ? 15 : 3);
  }
}

TEST_F(DriverTest, AnActorThatForgetsItsLeasesCostsTimeAndNothingElse) {
  DriverRun whole(config_, Dir("whole"));
  ASSERT_TRUE(whole.Go().ok());
  DriverRun run(config_, Dir("a"));
  std::set<std::string> forgotten;
  run.sabotage = [&](const Lease& lease) {
    return lease.task_ordinal() % 4 == 1 &&
           forgotten.insert(lease.lease_id()).second;
  };
  ASSERT_TRUE(run.Go().ok());
  EXPECT_GT(run.leases().expired_total(), 0);
  EXPECT_EQ(run.Weights(), whole.Weights());
}

TEST_F(DriverTest, LostSamplesAreNeverRewards) {
  DriverRun run(config_, Dir("a"));
  run.judge = [n = 0](const std::string& text) mutable {
    Verdict v = Judge(text);
    if (++n % 3 == 0) v.set_blame(BLAME_NONE);
    return v;
  };
  ASSERT_TRUE(run.Go().ok());
  for (const auto& line :
       absl::StrSplit(*ReadFile(Dir("a") + "/rollouts/end_to_end_000001.jsonl"),
                      '\n', absl::SkipEmpty())) {
    const json r = json::parse(line);
    EXPECT_EQ(r.contains("reward"),
              r["verdict"]["blame"] == "BLAME_CANDIDATE");
  }
}

}  // namespace
}  // namespace dice
