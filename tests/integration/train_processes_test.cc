// `dice train` with its real pool and workers; learner and actor are scripts
// that only live, so that supervision alone is tested.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/evaluator_harness.h"

namespace dice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr char kConfig[] = R"pb(
  name: "t"
  model { config_json: "model.json" tokenizer_dir: "." }
  tasks { train_path: "tasks.jsonl" }
  stages {
    name: "sft"
    steps: 1
    optimizer { lr: 1 }
    sft { batch_size: 1 }
  }
  judge { worker_slots: 2 }
  topology { learner_ranks: 2 actors: 1 workers: 2 }
)pb";

// Writes its ready file, makes a checkpoint, and ends when told to.
constexpr char kLearner[] = R"sh(#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --run-dir) run=$2 ;; --ready-file) ready=$2 ;; --port) port=$2 ;;
    --resume) resumed=1 ;;
  esac; shift
done
trap 'echo rank $RANK drained; exit 0' TERM
echo "rank $RANK of $WORLD_SIZE starts ${resumed:+resumed}" >> $run/lives
mkdir -p $run/checkpoints/step_000001
[ -z "$ready" ] || printf 'address=127.0.0.1:1\nmetrics=\npid=%s\n' $$ > $ready
[ "$RANK" != 0 ] || echo "step 1 of 1"
while [ ! -e $run/done ]; do sleep 0.02; done
)sh";

constexpr char kActor[] = R"sh(#!/bin/sh
trap 'exit 0' TERM
while :; do sleep 0.02; done
)sh";

class TrainProcessesTest : public ::testing::Test {
 protected:
  TrainProcessesTest() {
    std::ofstream(folder_ / "model.json") << "{}";
    std::ofstream(folder_ / "tasks.jsonl");
    std::ofstream(folder_ / "config.pbtxt") << kConfig;
    fs::create_directories(folder_ / "bin");
    Script("dice-learner", kLearner);
    Script("dice-actor", kActor);
    const std::string real = JoinPath(build_, "evaluator/dice-evaluator");
    Script("dice-evaluator",
           absl::StrCat("#!/bin/sh\ncase \"$*\" in *'--mode worker'*) exec ",
                        real, " \"$@\" --synthetic-judge-ms 1;; esac\nexec ",
                        real, " \"$@\"\n"));
  }
  ~TrainProcessesTest() override {
    train_.reset();
    for (const auto& [name, pid] : Ours()) kill(pid, SIGKILL);
  }

  void Script(const std::string& name, const std::string& text) {
    const std::string path = folder_ / ("bin/" + name);
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
  }
  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(),
                 {JoinPath(build_, "cli/dice"), "train", "--config",
                  folder_ / "config.pbtxt", "--run-dir", folder_ / "run",
                  "--bin-dir", folder_ / "bin"});
    auto process = Process::Spawn({.argv = flags,
                                   .env = {{"DICE_TEST_MARK", mark_}},
                                   .stdout_path = folder_ / "out.txt",
                                   .stderr_path = folder_ / "err.txt"});
    ASSERT_TRUE(process.ok()) << process.status();
    train_ = *std::move(process);
  }
  ExitStatus AwaitEnd() {
    const auto exit = train_->Wait(absl::Now() + absl::Seconds(60));
    EXPECT_TRUE(exit.ok()) << exit.status();
    return exit.value_or(ExitStatus{.code = -1});
  }
  // Every living process that this run started, by role.
  std::map<std::string, pid_t> Ours() const {
    std::map<std::string, pid_t> out;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      const auto env = ReadFile(entry.path() / "environ");
      const auto cmd = ReadFile(entry.path() / "cmdline");
      if (!env.ok() || !cmd.ok() || cmd->empty() ||
          !absl::StrContains(*env, "DICE_TEST_MARK=" + mark_)) {
        continue;
      }
      std::string role = "other " + pid;
      for (const char* known :
           {"worker-0", "worker-1", "actor-0", "dice-learner"}) {
        if (absl::StrContains(*cmd, known)) role = known;
      }
      if (absl::StrContains(*cmd, "dice-learner")) {
        role = absl::StrContains(*env, std::string("RANK=0\0", 7))
                   ? "learner-0"
                   : "learner-1";
      } else if (absl::StrContains(*cmd, "pool.sqlite")) {
        role = "pool";
      } else if (absl::StrContains(*cmd, "--run-dir")) {
        role = "train";
      }
      out[role] = std::stoi(pid);
    }
    return out;
  }
  bool AwaitAll() {
    return Eventually([&] {
      const auto ours = Ours();
      for (const char* role : {"pool", "worker-0", "worker-1", "actor-0",
                               "learner-0", "learner-1"}) {
        if (ours.count(role) == 0) return false;
      }
      return absl::StrContains(Text("out.txt"), "step 1 of 1");
    });
  }
  std::string Text(const std::string& name) const {
    return ReadFile(folder_ / name).value_or("");
  }

  const std::string build_ = getenv("DICE_BUILD_DIR");
  TestFolder folder_;
  const std::string mark_ =
      absl::StrCat(getpid(), "-", absl::ToUnixNanos(absl::Now()));
  std::unique_ptr<Process> train_;
};

TEST_F(TrainProcessesTest, RunsToTheEndAndLeavesNothingRunning) {
  Start({"--set", "seed=9"});
  ASSERT_TRUE(AwaitAll());
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(Text("run/logs/worker-0.log"), "synthetic");
  }));
  std::ofstream(folder_ / "run/done");
  EXPECT_TRUE(AwaitEnd().ok()) << Text("err.txt");
  EXPECT_THAT(Text("out.txt"),
              AllOf(HasSubstr("step 1 of 1\n"), HasSubstr("finished")));
  EXPECT_THAT(Text("run/config.pbtxt"), HasSubstr("seed: 9"));
  EXPECT_THAT(Ours(), IsEmpty());
}

TEST_F(TrainProcessesTest, ChaosEveryKilledChildComesBack) {
  Start();
  ASSERT_TRUE(AwaitAll());
  for (const std::string role : {"worker-0", "actor-0", "pool"}) {
    const pid_t before = Ours()[role];
    kill(before, SIGKILL);
    ASSERT_TRUE(Eventually([&] {
      const auto ours = Ours();
      return ours.count(role) > 0 && ours.at(role) != before;
    })) << role;
  }
  // The ranks come back as one, from their checkpoint. (Rank 0 of these scripts
  // would not notice that rank 1 is gone; a real one does.)
  kill(Ours()["learner-0"], SIGKILL);
  kill(Ours()["learner-1"], SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(Text("run/lives"), "rank 0 of 2 starts resumed") &&
           absl::StrContains(Text("run/lives"), "rank 1 of 2 starts resumed");
  }));
  std::ofstream(folder_ / "run/done");
  EXPECT_TRUE(AwaitEnd().ok()) << Text("err.txt");
  EXPECT_THAT(Ours(), IsEmpty());
}

TEST_F(TrainProcessesTest, CtrlCDrainsAndSaysHowToGoOn) {
  Start();
  ASSERT_TRUE(AwaitAll());
  kill(train_->pid(), SIGINT);
  EXPECT_TRUE(AwaitEnd().ok()) << Text("err.txt");
  EXPECT_THAT(Text("out.txt"), HasSubstr("dice train --resume --run-dir"));
  EXPECT_THAT(Text("run/logs/progress.log"), HasSubstr("rank 0 drained"));
  EXPECT_THAT(Text("run/logs/pool.log"), HasSubstr("drained"));
  EXPECT_THAT(Ours(), IsEmpty());
}

TEST_F(TrainProcessesTest, ChaosNothingOutlivesAKilledSupervisor) {
  Start();
  ASSERT_TRUE(AwaitAll());
  kill(train_->pid(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Ours().empty(); }));
}

TEST_F(TrainProcessesTest, AChildThatKeepsFailingEndsTheRunWithItsLog) {
  Script("dice-learner", "#!/bin/sh\necho cannot load weights >&2\nexit 9\n");
  Start();
  EXPECT_EQ(AwaitEnd().code, 3);
  EXPECT_THAT(
      Text("err.txt"),
      AllOf(HasSubstr("failed 3 times"), HasSubstr("exit code 9"),
            HasSubstr("cannot load weights"), HasSubstr("logs/learner-")));
  EXPECT_THAT(Ours(), IsEmpty());
}

TEST_F(TrainProcessesTest, ABadConfigStartsNothing) {
  Start({"--set", "stages[0].steps=0", "--set", "colour=1"});
  EXPECT_EQ(AwaitEnd().code, 2);
  EXPECT_THAT(Text("err.txt"), AllOf(HasSubstr("2 problems"),
                                     HasSubstr("colour"), HasSubstr("steps")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainProcessesTest, AFreshRunMovesTheOlderOneAsideAndResumeDoesNot) {
  Start();
  ASSERT_TRUE(AwaitAll());
  kill(train_->pid(), SIGTERM);
  AwaitEnd();
  Start({"--resume"});
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(Text("run/lives"), "rank 0 of 2 starts resumed");
  }));
  kill(train_->pid(), SIGTERM);
  AwaitEnd();
  Start();
  ASSERT_TRUE(Eventually([&] { return fs::exists(folder_ / "run.1/lives"); }));
}

}  // namespace
}  // namespace dice
