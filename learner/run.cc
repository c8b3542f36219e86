#include "learner/run.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/tasks/tasks.h"
#include "learner/driver.h"

namespace dice {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(5);

// Training and held-out tasks; a held-out file of its own wins over `split`.
struct TaskSets {
  std::vector<Task> train, heldout;
};

absl::StatusOr<TaskSets> LoadTaskSets(const Tasks& paths) {
  TaskSets out;
  DICE_ASSIGN_OR_RETURN(std::vector<Task> all, LoadTasks(paths.train_path()));
  const bool own_file = !paths.heldout_path().empty();
  for (Task& task : all) {
    if (task.split() != "heldout") {
      out.train.push_back(std::move(task));
    } else if (!own_file) {
      out.heldout.push_back(std::move(task));
    }
  }
  if (own_file) {
    DICE_ASSIGN_OR_RETURN(out.heldout, LoadTasks(paths.heldout_path()));
  }
  if (out.train.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths.train_path(), " holds no task to train on"));
  }
  return out;
}

torch::ScalarType Dtype(const ModelSpec& spec) {
  return spec.dtype() == "bf16" ? torch::kBFloat16 : torch::kFloat32;
}

absl::StatusOr<std::unique_ptr<DiffusionLm>> MakeModel(const Config& config) {
  const ModelSpec& spec = config.model();
  if (!spec.checkpoint_dir().empty()) {
    return DiffusionLm::Load(spec.checkpoint_dir(), Dtype(spec));
  }
  DICE_ASSIGN_OR_RETURN(const ModelConfig model,
                        ModelConfig::FromJsonFile(spec.config_json()));
  return DiffusionLm::Create(model, config.seed(), Dtype(spec));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(
    const ModelSpec& spec, const ModelConfig& model) {
  DICE_ASSIGN_OR_RETURN(
      auto tokenizer,
      Tokenizer::Load(spec.tokenizer_dir().empty() ? spec.checkpoint_dir()
                                                   : spec.tokenizer_dir()));
  if (tokenizer->vocab_size() > model.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", tokenizer->vocab_size(),
                     " tokens, the model ", model.vocab_size));
  }
  return tokenizer;
}

// The checkpoint to continue, if there is one and it is wanted.
absl::StatusOr<std::optional<Checkpoint>> FindCheckpoint(
    const LearnerOptions& options) {
  if (!options.resume) {
    if (ListCheckpoints(options.run_dir).empty()) return std::nullopt;
    return absl::FailedPreconditionError(
        absl::StrCat(options.run_dir, " already holds a run: --resume goes on "
                     "with it, another --run-dir starts a new one"));
  }
  auto checkpoint = LoadLatestCheckpoint(options.run_dir);
  if (checkpoint.ok()) return *std::move(checkpoint);
  if (absl::IsNotFound(checkpoint.status())) return std::nullopt;
  return checkpoint.status();
}

void UseThreads(const Config& config) {
  at::set_num_threads(config.topology().learner_threads());
  for (const Stage& stage : config.stages()) {
    if (stage.rl().deterministic()) {
      at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    }
  }
}

// What only rank 0 has.
absl::Status Lead(const LearnerOptions& options, DiffusionLm& lm,
                  Trainer& trainer, std::stop_token stop) {
  const Config& config = options.config;
  Clock& clock = Clock::Real();
  DICE_ASSIGN_OR_RETURN(const TaskSets tasks, LoadTaskSets(config.tasks()));
  DICE_ASSIGN_OR_RETURN(const auto tokenizer,
                        MakeTokenizer(config.model(), lm.config()));
  DICE_ASSIGN_OR_RETURN(std::optional<Checkpoint> checkpoint,
                        FindCheckpoint(options));
  TrainState state;
  if (checkpoint.has_value()) {
    DICE_RETURN_IF_ERROR(lm.LoadWeights(checkpoint->weights)) << "resume";
    state = checkpoint->state;
  } else {
    state.set_run_id(absl::StrCat(config.name(), "-",
                                  absl::ToUnixMicros(clock.Now()), "-",
                                  getpid()));
  }
  DICE_RETURN_IF_ERROR(MakeDirs(options.run_dir));
  DICE_RETURN_IF_ERROR(WriteFileAtomic(
      JoinPath(options.run_dir, "config.pbtxt"), PrintConfig(config)));
  DICE_ASSIGN_OR_RETURN(
      const auto record,
      RunRecord::Create(options.run_dir, state.metrics_rows(), std::cout));

  MetricRegistry registry;
  LearnerMetrics metrics(registry);
  Health health;
  LeaseTable leases({}, clock);
  // Unix time tells a restart's versions from earlier ones, whatever survived.
  PolicyBoard policies(state.run_id(), absl::ToUnixMicros(clock.Now()), clock);
  Driver driver({.config = config,
                 .train = tasks.train,
                 .heldout = tasks.heldout,
                 .tokenizer = *tokenizer,
                 .lm = lm,
                 .trainer = trainer,
                 .leases = leases,
                 .policies = policies,
                 .record = *record,
                 .metrics = metrics,
                 .progress = health.AddProgressClock("driver",
                                                     absl::Minutes(10)),
                 .clock = clock},
                options.run_dir, std::move(state));
  if (checkpoint.has_value()) {
    driver.SetRestored({std::move(checkpoint->optimizer),
                        std::move(checkpoint->reference)});
  }
  DICE_ASSIGN_OR_RETURN(
      const auto server,
      LearnerServer::Start(options.server,
                           {.leases = leases,
                            .policies = policies,
                            .metrics = metrics,
                            .registry = registry,
                            .health = health,
                            .clock = clock,
                            .status = [&] { return driver.Status(); }}));
  DICE_RETURN_IF_ERROR(server->MarkReady());
  DICE_LOG(kInfo) << "learner serves on " << server->address() << "; "
                  << tasks.train.size() << " train and "
                  << tasks.heldout.size() << " held-out tasks";
  const absl::Status result = driver.Run(stop);
  if (result.ok()) {
    leases.Close();
    server->AwaitFarewell(kFarewell);
  }
  server->Drain(absl::Milliseconds(500));
  TrainBatch over;
  over.set_kind(TrainBatch::STOP);
  if (result.ok() || absl::IsCancelled(result)) {
    DICE_RETURN_IF_ERROR(trainer.Run(over).status());
  }
  return result;
}

}  // namespace

absl::Status RunLearner(const LearnerOptions& options, std::stop_token stop) {
  UseThreads(options.config);
  DICE_LOG(kInfo) << "rank " << options.rank.rank << " of "
                  << options.rank.world_size << " (from "
                  << options.rank.source << ")";
  DICE_ASSIGN_OR_RETURN(const auto lm, MakeModel(options.config));
  DICE_ASSIGN_OR_RETURN(
      const auto group,
      CreateProcessGroup(options.rank, {.run_key = options.config.name()}));
  Trainer trainer(*lm, *group);
  if (options.rank.rank > 0) return trainer.Serve();
  return Lead(options, *lm, trainer, stop);
}

}  // namespace dice
