#include "learner/run_record.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "learner/evaluation.h"
#include "nlohmann/json.hpp"

namespace dice {
namespace {

using Json = nlohmann::ordered_json;

// "-" where there is no number.
std::string Show(double v, const char* format) {
  if (!std::isfinite(v)) return "-";
  return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), v);
}
std::string Percent(double v) { return Show(100 * v, "%.1f") + "%"; }

Json Number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

const EvaluationScores* FindScores(const TrainState& state,
                                   const std::string& label) {
  for (const EvaluationScores& s : state.evaluations()) {
    if (s.label() == label) return &s;
  }
  return nullptr;
}

void AddSet(const std::string& set, const EvaluationScores& before,
            const EvaluationScores& after, uint64_t seed, Json* out) {
  const bool train = set == "train";
  const auto& a = train ? before.train() : before.heldout();
  const auto& b = train ? after.train() : after.heldout();
  if (a.empty()) return;
  const ScoreSummary x = Summarize(a), y = Summarize(b);
  const Gain gain = RewardGain(a, b, seed);
  Json& j = *out;
  j[set + "_reward_sft"] = x.reward;
  j[set + "_reward_final"] = y.reward;
  j[set + "_reward_gain"] = Number(gain.mean);
  j[set + "_reward_gain_lo"] = Number(gain.lo);
  j[set + "_reward_gain_hi"] = Number(gain.hi);
  j[set + "_correct_sft"] = x.correct;
  j[set + "_correct_final"] = y.correct;
  j[set + "_greedy_correct_sft"] = x.greedy_correct;
  j[set + "_greedy_correct_final"] = y.greedy_correct;
  j[set + "_speedup_sft"] = x.speedup;
  j[set + "_speedup_final"] = y.speedup;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunRecord>> RunRecord::Create(
    const std::string& run_dir, int64_t keep_rows, std::ostream& live) {
  DICE_RETURN_IF_ERROR(MakeDirs(JoinPath(run_dir, "rollouts")));
  DICE_ASSIGN_OR_RETURN(auto log, RunLog::Create(run_dir, keep_rows));
  return std::unique_ptr<RunRecord>(
      new RunRecord(run_dir, std::move(log), live));
}

absl::Status RunRecord::Step(const StepReport& r) {
  const GroupStats& g = r.groups;
  MetricsRow row;
  row.Set("stage", r.stage)
      .Set("step", r.step)
      .Set("time_s", r.time_s)
      .Set("policy_version", r.policy_version)
      .Set("reward_mean", g.reward_mean)
      .Set("reward_best", g.reward_best)
      .Set("compiled", g.compiled)
      .Set("correct", g.correct)
      .Set("speedup_mean", g.speedup_mean)
      .Set("speedup_best", g.speedup_best)
      .Set("fast_1", g.fast_1)
      .Set("deceptive", g.deceptive)
      .Set("staleness_mean", g.staleness_mean)
      .Set("tokens_per_s", r.tokens_per_s)
      .Set("evals_per_s", r.evals_per_s)
      .Set("kl", r.kl)
      .Set("clip_fraction", r.clip_fraction)
      .Set("grad_norm", r.grad_norm)
      .Set("groups_kept", g.groups_kept)
      .Set("groups_zero_variance", g.groups_zero_variance)
      .Set("infra_errors", g.infra_errors)
      .Set("loss", r.loss)
      .Set("entropy", r.entropy)
      .Set("lr", r.lr);
  DICE_RETURN_IF_ERROR(log_->Write(r.stage, r.policy_version, row))
      << "metrics.jsonl";
  PrintLine(r);
  return absl::OkStatus();
}

void RunRecord::PrintLine(const StepReport& r) {
  const bool sft = r.stage == "sft";
  if (sft && r.step % 10 != 0 && r.step != r.stage_steps) return;
  std::string line =
      absl::StrFormat("%-10s %4d/%d", r.stage, r.step, r.stage_steps);
  if (sft) {
    absl::StrAppend(&line, "  loss ", Show(r.loss, "%.3f"), "  ",
                    Show(r.tokens_per_s, "%.0f"), " tok/s");
  } else {
    const GroupStats& g = r.groups;
    absl::StrAppend(&line, "  reward ", Show(g.reward_mean, "%.3f"),
                    "  compiled ", Percent(g.compiled), "  correct ",
                    Percent(g.correct), "  speedup ",
                    Show(g.speedup_mean, "%.2f"), "x (best ",
                    Show(g.speedup_best, "%.2f"), "x)  ",
                    Show(r.tokens_per_s, "%.0f"), " tok/s");
    if (g.infra_errors > 0) {
      absl::StrAppend(&line, "  lost ", g.infra_errors);
    }
  }
  absl::StrAppend(&line, "  ", Show(r.time_s, "%.1f"), " s");
  live_ << line << std::endl;
}

absl::Status RunRecord::Rollouts(const std::string& name,
                                 const std::string& stage, int64_t step,
                                 const std::vector<CompletedGroup>& groups) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string out;
  for (const CompletedGroup& group : groups) {
    for (Rollout r : group.rollouts) {
      r.set_stage(stage);
      r.set_step(step);
      const auto status =
          google::protobuf::util::MessageToJsonString(r, &out, options);
      if (!status.ok()) {
        return absl::InternalError(
            absl::StrCat("rollout of ", r.task_id(), ": ", status.ToString()));
      }
      out += '\n';
    }
  }
  const std::string path =
      JoinPath(JoinPath(run_dir_, "rollouts"), name + ".jsonl");
  DICE_RETURN_IF_ERROR(WriteFileAtomic(path, out)) << path;
  return absl::OkStatus();
}

void RunRecord::Evaluated(const EvaluationScores& scores) {
  const auto line = [&](const char* set, const auto& tasks) {
    if (tasks.empty()) return;
    const ScoreSummary s = Summarize(tasks);
    live_ << absl::StrFormat(
                 "evaluation %-6s %-8s reward %.3f  correct %s  greedy correct "
                 "%s  speedup %.2fx  (%d tasks)",
                 scores.label(), set, s.reward, Percent(s.correct),
                 Percent(s.greedy_correct), s.speedup, tasks.size())
          << std::endl;
  };
  line("train", scores.train());
  line("heldout", scores.heldout());
}

absl::Status RunRecord::Summary(const TrainState& state) {
  Json j;
  j["name"] = state.config().name();
  j["run_id"] = state.run_id();
  j["seed"] = state.config().seed();
  Json wall = Json::object();
  for (const auto& [stage, seconds] : state.stage_wall_s()) {
    wall[stage] = seconds;
  }
  wall["total"] = state.wall_s();
  j["wall_s"] = std::move(wall);
  j["steps"] = state.step();
  const EvaluationScores* sft = FindScores(state, "sft");
  const EvaluationScores* last = FindScores(state, "final");
  if (sft != nullptr) {
    const EvaluationScores& after = last != nullptr ? *last : *sft;
    for (const char* set : {"train", "heldout"}) {
      AddSet(set, *sft, after, state.config().seed(), &j);
    }
  }
  j["judge_calls"] = state.judge_calls();
  j["cache_hits"] = state.cache_hits();
  j["infra_errors"] = state.infra_errors();
  if (state.has_best()) {
    const BestKernel& b = state.best();
    j["best_kernel"] = {{"task", b.task()},
                        {"speedup", b.speedup()},
                        {"speedup_lo", b.speedup_lo()},
                        {"speedup_hi", b.speedup_hi()},
                        {"device", b.device()},
                        {"stage", b.stage()},
                        {"step", b.step()},
                        {"source", b.source()}};
  }
  return WriteFileAtomic(
      JoinPath(run_dir_, "summary.json"),
      j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace dice
