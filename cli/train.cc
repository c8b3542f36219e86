// `dice train`: a whole run on one machine, every process supervised.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stop_token>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/supervisor.h"
#include "cli/train_plan.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/rpc/backoff.h"
#include "common/rpc/ready_file.h"

namespace dice::cli {
namespace fs = std::filesystem;
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> sets;
  std::string run_dir;
  std::string bin_dir;
  bool resume = false;
  bool print_config = false;
  bool dry_run = false;
};

// Prints what a growing file gains, whole lines only.
class Tail {
 public:
  explicit Tail(std::string path) : path_(std::move(path)) {
    std::error_code ec;
    const auto size = fs::file_size(path_, ec);
    offset_ = ec ? 0 : size;
  }
  void Print() {
    std::FILE* file = std::fopen(path_.c_str(), "r");
    if (file == nullptr) return;
    std::fseek(file, static_cast<long>(offset_), SEEK_SET);
    char buffer[1 << 14];
    std::string text;
    for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) {
      text.append(buffer, n);
    }
    std::fclose(file);
    const size_t end = text.rfind('\n');
    if (end == text.npos) return;
    offset_ += end + 1;
    std::cout << text.substr(0, end + 1) << std::flush;
  }

 private:
  const std::string path_;
  size_t offset_ = 0;
};

absl::StatusOr<Config> Load(const TrainOptions& options) {
  if (!options.config.empty()) return LoadConfig(options.config, options.sets);
  if (options.resume && !options.run_dir.empty()) {
    return LoadConfig(JoinPath(options.run_dir, "config.pbtxt"), options.sets);
  }
  return absl::InvalidArgumentError(
      "--config is missing (or --resume with --run-dir)");
}

// A fresh run never writes into an older one: that is moved aside.
absl::Status PrepareRunDir(const std::string& run_dir, bool resume) {
  std::error_code ec;
  if (resume) {
    if (fs::exists(run_dir, ec)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to resume: there is no ", run_dir));
  }
  if (fs::exists(run_dir, ec) && !fs::is_empty(run_dir, ec)) {
    int n = 1;
    while (fs::exists(absl::StrCat(run_dir, ".", n), ec)) ++n;
    const std::string aside = absl::StrCat(run_dir, ".", n);
    fs::rename(run_dir, aside, ec);
    if (ec) {
      return absl::InvalidArgumentError(
          absl::StrCat("moving ", run_dir, " to ", aside, ": ", ec.message()));
    }
    std::cout << "the earlier run is now " << aside << "\n";
  }
  for (const char* sub : {"logs", "ready", "checkpoints", "rollouts"}) {
    DICE_RETURN_IF_ERROR(MakeDirs(JoinPath(run_dir, sub)));
  }
  return absl::OkStatus();
}

// Two supervisors in one folder would fight; the lock ends with the process.
absl::Status LockRunDir(const std::string& run_dir) {
  const std::string path = JoinPath(run_dir, ".lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("another dice train runs in ", run_dir));
  }
  return absl::OkStatus();  // the descriptor stays open on purpose
}

// One run from the first child to the last.
class Run {
 public:
  Run(Config config, RunPlaces places, bool resume, std::stop_token stop)
      : config_(std::move(config)),
        places_(std::move(places)),
        resume_(resume),
        stop_(std::move(stop)),
        supervisor_({.trampoline = {JoinPath(ExecutableDir(), "dice"),
                                    "exec-child", absl::StrCat(getpid())}}),
        progress_(JoinPath(places_.run_dir, "logs/progress.log")) {}

  // OK: finished. CANCELLED: stopped by a signal. Else what went wrong.
  absl::Status Execute() {
    absl::Status status = Start();
    while (status.ok()) {
      absl::StatusOr<bool> finished = supervisor_.Step();
      progress_.Print();
      status = finished.status();
      if (status.ok() && *finished) break;
      if (!SleepUnlessStopped(Clock::Real(), absl::Milliseconds(100), stop_)) {
        status = absl::CancelledError("stopped");
      }
    }
    Stop();
    return status;
  }

 private:
  absl::StatusOr<std::string> Await(const std::string& group,
                                    const std::string& child,
                                    absl::Duration limit) {
    DICE_RETURN_IF_ERROR(
        supervisor_.AwaitReady(group, Clock::Real().Now() + limit, [this] {
          progress_.Print();
          return stop_.stop_requested();
        }));
    DICE_ASSIGN_OR_RETURN(const ReadyInfo info,
                          ReadReadyFile(places_.Ready(child)));
    std::cout << "  " << child << "  " << info.address
              << (info.metrics_address.empty()
                      ? ""
                      : "  metrics http://" + info.metrics_address + "/metrics")
              << std::endl;
    return info.address;
  }

  absl::Status Start() {
    std::string pool = config_.topology().evaluator_address();
    supervisor_.Add(LearnerGroup(config_, places_,
                                 PortOf(config_.topology().learner_address()),
                                 resume_));
    if (pool.empty()) {
      supervisor_.Add(PoolGroup(config_, places_, "0"));
      DICE_ASSIGN_OR_RETURN(pool, Await("pool", "pool", absl::Minutes(1)));
      for (int i = 0; i < config_.topology().workers(); ++i) {
        supervisor_.Add(WorkerGroup(config_, places_, i, pool));
        services_.push_back(absl::StrCat("worker-", i));
      }
      services_.push_back("pool");
    }
    DICE_ASSIGN_OR_RETURN(const std::string learner,
                          Await("learner", "learner-0", absl::Minutes(10)));
    for (int i = 0; i < config_.topology().actors(); ++i) {
      supervisor_.Add(ActorGroup(config_, places_, i, learner, pool));
      trainers_.push_back(absl::StrCat("actor-", i));
    }
    return absl::OkStatus();
  }

  // The trainers first: what they have in flight still needs the judge.
  void Stop() {
    trainers_.push_back("learner");
    supervisor_.Stop(trainers_, absl::Seconds(60));
    progress_.Print();
    supervisor_.Stop(services_, absl::Seconds(15));
  }

  const Config config_;
  const RunPlaces places_;
  const bool resume_;
  const std::stop_token stop_;
  Supervisor supervisor_;
  Tail progress_;
  std::vector<std::string> trainers_, services_;
};

int Complain(int code, const absl::Status& status) {
  std::cout << std::flush;
  std::cerr << "dice train: " << status.message() << "\n";
  return code;
}

void PrintPlan(const Config& config, const RunPlaces& places) {
  std::vector<GroupSpec> groups = {LearnerGroup(config, places, "0", false),
                                   PoolGroup(config, places, "0")};
  for (int i = 0; i < config.topology().workers(); ++i) {
    groups.push_back(WorkerGroup(config, places, i, "POOL"));
  }
  for (int i = 0; i < config.topology().actors(); ++i) {
    groups.push_back(ActorGroup(config, places, i, "LEARNER", "POOL"));
  }
  for (const GroupSpec& group : groups) {
    for (const ChildSpec& child : group.make(0)) {
      std::cout << child.name << ": " << absl::StrJoin(child.argv, " ") << "\n";
    }
  }
}

int Train(const TrainOptions& options) {
  absl::StatusOr<Config> config = Load(options);
  if (!config.ok()) return Complain(kUsage, config.status());
  if (options.print_config) {
    std::cout << PrintConfig(*config);
    return kAccepted;
  }
  const std::string run_dir =
      fs::absolute(options.run_dir.empty() ? JoinPath("runs", config->name())
                                           : options.run_dir)
          .lexically_normal();
  RunPlaces places{
      .bin_dir = options.bin_dir.empty() ? ExecutableDir() : options.bin_dir,
      .run_dir = run_dir,
      .config = JoinPath(run_dir, "config.pbtxt")};
  if (options.dry_run) {
    PrintPlan(*config, places);
    return kAccepted;
  }
  if (absl::Status s = PrepareRunDir(run_dir, options.resume); !s.ok()) {
    return Complain(kUsage, s);
  }
  if (absl::Status s = LockRunDir(run_dir); !s.ok()) return Complain(kUsage, s);
  if (absl::Status s = WriteFileAtomic(places.config, PrintConfig(*config));
      !s.ok()) {
    return Complain(kInfra, s);
  }

  std::stop_source stopping;
  SignalHandler signals([&] { stopping.request_stop(); });
  std::cout << "run " << run_dir << "\n  logs in " << run_dir << "/logs"
            << std::endl;
  const absl::Status status =
      Run(*std::move(config), places, options.resume, stopping.get_token())
          .Execute();
  if (status.ok()) {
    std::cout << "finished: " << run_dir << std::endl;
    return kAccepted;
  }
  if (absl::IsCancelled(status)) {
    std::cout << "stopped; go on with: dice train --resume --run-dir "
              << run_dir << std::endl;
    return kAccepted;
  }
  return Complain(absl::IsFailedPrecondition(status) ? kUsage : kInfra, status);
}

// Becomes the command behind argv[0], and dies with the process argv[0], which
// started it.
int ExecChild(const std::vector<std::string>& argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before we could ask.
  if (argv.size() < 2 || absl::StrCat(getppid()) != argv[0]) return kInfra;
  std::vector<char*> pointers;
  for (size_t i = 1; i < argv.size(); ++i) {
    pointers.push_back(const_cast<char*>(argv[i].c_str()));
  }
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  std::perror(pointers[0]);
  return kInfra;
}

}  // namespace

void AddTrain(CLI::App& app, Body& body) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* train = app.add_subcommand(
      "train", "train on this machine: learner, actors, judge, supervised");
  train->add_option("--config", options->config,
                    "textproto of proto/config.proto");
  train->add_option("--set", options->sets, "a.b[0].c=value, may be repeated")
      ->allow_extra_args(false);
  train->add_option("--run-dir", options->run_dir, "default: runs/NAME");
  train->add_flag("--resume", options->resume,
                  "go on from the newest checkpoint of --run-dir");
  train->add_flag("--print-config", options->print_config,
                  "print the effective config and end");
  train->add_flag("--dry-run", options->dry_run, "print the processes and end");
  train->add_option("--bin-dir", options->bin_dir,
                    "where the other binaries are (default: beside dice)");
  train->callback(
      [options, &body] { body = [options] { return Train(*options); }; });

  CLI::App* exec = app.add_subcommand("exec-child", "")->group("");  // hidden
  exec->prefix_command();
  exec->callback([exec, &body] {
    body = [argv = exec->remaining()] { return ExecChild(argv); };
  });
}

}  // namespace dice::cli
