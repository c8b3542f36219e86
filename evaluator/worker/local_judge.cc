#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tasks/tasks.h"
#include "evaluator/compile/emulated_compiler.h"
#include "evaluator/sandbox/jail.h"
#include "evaluator/worker/judge.h"
#include "evaluator/worker/judge_baseline.h"
#include "evaluator/worker/judge_oracle.h"
#include "evaluator/worker/judge_places.h"
#include "evaluator/worker/judge_run.h"

namespace dice {
namespace {

constexpr int kDefaultSeeds = 3;
constexpr double kDefaultTimeout = 10;

Blame BlameOf(Outcome outcome) {
  switch (outcome) {
    case TASK_ERROR:
      return BLAME_TASK;
    case UNSUPPORTED:
      return BLAME_NONE;
    default:
      return BLAME_CANDIDATE;
  }
}

// 60 random bits that no candidate can know.
std::string RandomSecret() {
  uint64_t bits = 0;
  DICE_CHECK(getrandom(&bits, sizeof bits, 0) == sizeof bits);
  return absl::StrCat(bits);
}

class LocalJudge : public Judge {
 public:
  LocalJudge(LocalJudgeOptions options, std::unique_ptr<Zygote> zygote,
             std::unique_ptr<Compiler> compiler, std::string version)
      : options_(std::move(options)),
        zygote_(std::move(zygote)),
        compiler_(std::move(compiler)),
        version_(std::move(version)),
        secret_(RandomSecret()),
        oracles_(options_.max_oracles) {}

  absl::StatusOr<Verdict> Evaluate(const Task& task,
                                   const std::string& candidate,
                                   const Profile& profile) override {
    return EvaluateControlled(task, candidate, profile, {});
  }
  absl::StatusOr<Verdict> EvaluateControlled(
      const Task& task, const std::string& candidate, const Profile& profile,
      const EvaluationControl& control) override;
  void Shutdown() override { stop_.request_stop(); }

  Isolation isolation() const override {
    switch (zygote_->level()) {
      case DICE_JAIL_FULL:
        return ISOLATION_FULL;
      case DICE_JAIL_PARTIAL:
        return ISOLATION_PARTIAL;
      default:
        return ISOLATION_NONE;
    }
  }
  std::string device() const override { return "emulated"; }
  std::string harness_version() const override { return version_; }

 private:
  // Everything of one call.
  struct Evaluation {
    const Task& task;
    const Profile& profile;
    const EvaluationControl& control;
    std::string key;  // of what the oracle and the baseline depend on
    std::shared_ptr<Oracle> oracle;
    double tolerance = 0;
  };
  absl::Status Decide(const Evaluation& e, const std::string& candidate,
                      Verdict& v);
  absl::Status AddSpeedup(const Evaluation& e, const MeasuredTime& mine,
                          Verdict& v);
  // Times the task's naive kernel as a candidate in a runner of its own;
  // nullopt when it is not accepted.
  absl::StatusOr<std::optional<MeasuredTime>> MeasureNaive(const Evaluation& e);
  uint64_t SecretSeed(const std::string& digest, int64_t epoch) const;
  CandidateRun::Options RunOptions(const Profile& profile) const {
    CandidateRun::Options o;
    o.limits = Limits();
    o.timeout = absl::Seconds(profile.timeout_s() > 0 ? profile.timeout_s()
                                                      : kDefaultTimeout);
    return o;
  }
  ChildLimits Limits() const {
    ChildLimits l;
    l.memory_bytes = static_cast<int64_t>(options_.memory_limit_mib) << 20;
    return l;
  }

  const LocalJudgeOptions options_;
  const std::unique_ptr<Zygote> zygote_;
  const std::unique_ptr<Compiler> compiler_;
  const std::string version_;
  // Seeds of an epoch of 0 derive from it; it dies with this process.
  const std::string secret_;
  OracleCache oracles_;
  BaselineCache baselines_;
  std::stop_source stop_;
};

double Tolerance(const Task& task, const Profile& profile) {
  return profile.tolerance() > 0 ? profile.tolerance() : task.tolerance();
}

uint64_t LocalJudge::SecretSeed(const std::string& digest,
                                int64_t epoch) const {
  const std::string by = epoch != 0 ? absl::StrCat("epoch ", epoch) : secret_;
  return std::stoull(Sha256HexOf({by, digest}).substr(0, 13), nullptr, 16);
}

absl::StatusOr<Verdict> LocalJudge::EvaluateControlled(
    const Task& task, const std::string& candidate, const Profile& profile,
    const EvaluationControl& control) {
  Verdict v;
  v.set_stage(STAGE_PARSE);
  v.set_error_index(-1);
  v.set_isolation(isolation());
  v.set_device(device());
  v.set_harness_version(version_);
  const auto finish = [&](Outcome outcome, const std::string& message) {
    v.set_outcome(outcome);
    v.set_blame(BlameOf(outcome));
    v.set_message(message);
    return v;
  };
  if (!task.quarantine_reason().empty()) {
    return finish(TASK_ERROR, "quarantined: " + task.quarantine_reason());
  }
  if (stop_.stop_requested()) return absl::CancelledError("shut down");
  Evaluation e = {.task = task,
                  .profile = profile,
                  .control = control,
                  .tolerance = Tolerance(task, profile)};
  const std::string digest = TaskDigest(task);
  e.key = absl::StrCat(digest, "/", profile.max_elements(), "/", e.tolerance,
                       "/", profile.seed_epoch());
  auto oracle = oracles_.Get(e.key, [&] {
    return Oracle::Start(*zygote_, Limits(), task, profile,
                         SecretSeed(digest, profile.seed_epoch()));
  });
  if (absl::IsFailedPrecondition(oracle.status())) {
    return finish(TASK_ERROR, std::string(oracle.status().message()));
  }
  DICE_RETURN_IF_ERROR(oracle.status());
  e.oracle = *oracle;
  const absl::Status decided = Decide(e, candidate, v);
  if (absl::IsFailedPrecondition(decided)) {
    return finish(TASK_ERROR, std::string(decided.message()));
  }
  if (!decided.ok()) {
    if (absl::IsUnavailable(decided)) oracles_.Drop(e.key);
    return decided;
  }
  v.set_blame(BlameOf(v.outcome()));
  return v;
}

// The stage that an ending belongs to; most end where they are.
JudgeStage StageOf(Outcome outcome, JudgeStage reached) {
  if (outcome == PARSE_ERROR) return STAGE_PARSE;
  if (outcome == COMPILE_ERROR || outcome == UNSUPPORTED) return STAGE_COMPILE;
  return reached;
}

absl::Status LocalJudge::Decide(const Evaluation& e,
                                const std::string& candidate, Verdict& v) {
  std::stop_source stop;
  const std::stop_callback on_caller(e.control.stop,
                                     [&] { stop.request_stop(); });
  const std::stop_callback on_shutdown(stop_.get_token(),
                                       [&] { stop.request_stop(); });
  CandidateRun run({*zygote_, *compiler_, *e.oracle}, RunOptions(e.profile),
                   stop.get_token());
  const auto enter = [&](JudgeStage stage) {
    v.set_stage(stage);
    if (e.control.on_stage) e.control.on_stage(stage);
    return absl::Now();
  };
  const auto since = [](absl::Time begin) {
    return absl::ToDoubleSeconds(absl::Now() - begin);
  };
  const auto end = [&](const Ending& ending) {
    v.set_outcome(ending.outcome);
    v.set_message(ending.message);
    v.set_stage(StageOf(ending.outcome, v.stage()));
    return absl::OkStatus();
  };
  StageSeconds& spent = *v.mutable_stage_s();

  absl::Time begin = enter(STAGE_LOAD);
  DICE_ASSIGN_OR_RETURN(auto ending, run.Load(candidate));
  spent.set_load(since(begin) - run.compile_seconds());
  spent.set_compile(run.compile_seconds());
  if (!run.tier().empty()) v.add_notes("compiled by tier " + run.tier());
  for (const std::string& note : e.oracle->notes()) v.add_notes(note);
  v.set_eager_ms(e.oracle->eager_seconds() * 1e3);
  if (ending.has_value()) return end(*ending);

  begin = enter(STAGE_CORRECTNESS);
  const int seeds = e.profile.seeds() > 0 ? e.profile.seeds() : kDefaultSeeds;
  for (int i = 0; i < seeds; ++i) {
    Comparison c;
    DICE_ASSIGN_OR_RETURN(ending, run.CheckSet(i, e.tolerance, &c));
    v.set_max_error(std::max(v.max_error(), c.max_error));
    spent.set_correctness(since(begin));
    if (ending.has_value()) {
      v.set_error_index(c.index);
      v.set_expected(c.expected);
      v.set_got(c.got);
      return end(*ending);
    }
    v.set_seeds(i + 1);
  }
  const bool own = run.compiled_anything() && run.launches() > 0;
  v.set_work(own ? "own_kernels" : "torch_python");
  if (!own) {
    return end({DECEPTIVE,
                "right, but no kernel of its own did the work: it called "
                "PyTorch"});
  }
  if (e.profile.timing()) {
    begin = enter(STAGE_TIMING);
    MeasuredTime mine;
    DICE_ASSIGN_OR_RETURN(ending, run.Time(e.tolerance, &mine));
    if (ending.has_value()) return end(*ending);
    v.set_candidate_ms(mine.seconds * 1e3);
    DICE_RETURN_IF_ERROR(AddSpeedup(e, mine, v));
    spent.set_timing(since(begin));
  }
  v.set_outcome(CORRECT);
  v.set_message("correct");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MeasuredTime>> LocalJudge::MeasureNaive(
    const Evaluation& e) {
  const auto naive = MakeCandidate(e.task, END_TO_END, e.task.naive_response());
  if (!naive.ok()) return std::nullopt;
  CandidateRun run({*zygote_, *compiler_, *e.oracle}, RunOptions(e.profile),
                   stop_.get_token());
  MeasuredTime time;
  Comparison c;
  DICE_ASSIGN_OR_RETURN(auto ending, run.Load(*naive));
  if (!ending.has_value()) {
    DICE_ASSIGN_OR_RETURN(ending, run.CheckSet(0, e.tolerance, &c));
  }
  if (!ending.has_value()) {
    DICE_ASSIGN_OR_RETURN(ending, run.Time(e.tolerance, &time));
  }
  if (!ending.has_value()) return time;
  DICE_LOG(kWarning) << e.task.id() << ": the naive kernel is no baseline: "
                     << ending->message;
  return std::nullopt;
}

// The emulated device's baseline is the task's naive kernel on the same device.
absl::Status LocalJudge::AddSpeedup(const Evaluation& e,
                                    const MeasuredTime& mine, Verdict& v) {
  if (e.task.naive_response().empty()) {
    v.add_notes("no speedup: the task has no naive kernel to compare with");
    return absl::OkStatus();
  }
  DICE_ASSIGN_OR_RETURN(const std::optional<MeasuredTime> naive,
                        baselines_.Get(e.key, [&] { return MeasureNaive(e); }));
  if (!naive.has_value()) {
    v.add_notes("no speedup: the task's naive kernel was not accepted");
    return absl::OkStatus();
  }
  const Speedup s = SpeedupOver(*naive, mine);
  v.set_baseline_ms(naive->seconds * 1e3);
  v.set_speedup_basis("naive_emulated");
  v.set_speedup(s.ratio);
  v.set_speedup_lo(s.lo);
  v.set_speedup_hi(s.hi);
  if (s.ratio > 10) v.add_flags("speedup above 10x");
  return absl::OkStatus();
}

absl::StatusOr<int> LevelOf(const std::string& isolation) {
  if (isolation == "auto" || isolation == "full" || isolation.empty()) {
    return DICE_JAIL_FULL;
  }
  if (isolation == "partial") return DICE_JAIL_PARTIAL;
  if (isolation == "none") return DICE_JAIL_NONE;
  return absl::InvalidArgumentError(absl::StrCat(
      "isolation '", isolation, "': use auto, full, partial or none"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Judge>> CreateLocalJudge(
    const LocalJudgeOptions& given) {
  LocalJudgeOptions options = given;
  if (options.device == "cuda") {
    return absl::FailedPreconditionError(
        "this build judges on the emulated device only; use --device emulated");
  }
  DICE_ASSIGN_OR_RETURN(const JudgePlaces places,
                        FindJudgePlaces(options.python, options.harness_dir));
  DICE_ASSIGN_OR_RETURN(const int level, LevelOf(options.isolation));
  if (options.cache_dir.empty()) options.cache_dir = places.default_cache_dir;
  DICE_RETURN_IF_ERROR(MakeDirs(options.cache_dir));
  DICE_ASSIGN_OR_RETURN(
      auto compiler, CreateEmulatedCompiler({.python = places.python,
                                             .harness_dir = places.harness_dir,
                                             .cache_dir = options.cache_dir}));
  DICE_ASSIGN_OR_RETURN(
      auto zygote,
      Zygote::Start(
          {.python = places.python,
           .harness_dir = places.harness_dir,
           .jail_library = places.jail_library,
           .level = level,
           .log_path = JoinPath(options.cache_dir,
                                absl::StrCat("zygote.", getpid(), ".log"))}));
  if (options.isolation == "full" && zygote->level() != DICE_JAIL_FULL) {
    return absl::FailedPreconditionError(absl::StrCat(
        "isolation full is not to be had here: ", zygote->level_note(),
        "; run as root, or allow --isolation partial"));
  }
  if (zygote->level() != DICE_JAIL_FULL) {
    DICE_LOG(kWarning) << "isolation level " << zygote->level()
                       << " (3 = full): " << zygote->level_note();
  }
  return std::make_unique<LocalJudge>(
      options, std::move(zygote), std::move(compiler), places.harness_version);
}

}  // namespace dice
