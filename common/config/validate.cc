// Every rule that a configuration must obey.
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/config.h"

namespace dice {
namespace {

// Collects violations below a field path.
class Check {
 public:
  Check(std::string path, std::vector<std::string>* out)
      : path_(std::move(path)), out_(*out) {}

  Check In(absl::string_view field) const {
    return Check(
        path_.empty() ? std::string(field) : absl::StrCat(path_, ".", field),
        &out_);
  }
  // Adds "path.field: why" unless `ok`.
  void That(bool ok, absl::string_view field, absl::string_view why) const {
    if (ok) return;
    out_.push_back(
        absl::StrCat(path_, path_.empty() ? "" : ".", field, ": ", why));
  }
  void Positive(double v, absl::string_view field) const {
    That(v > 0, field, absl::StrCat("must be above 0, is ", v));
  }
  void NotNegative(double v, absl::string_view field) const {
    That(v >= 0, field, absl::StrCat("must not be negative, is ", v));
  }
  void Within(double v, double lo, double hi, absl::string_view field) const {
    That(v >= lo && v <= hi, field,
         absl::StrCat("must be in [", lo, ", ", hi, "], is ", v));
  }
  void OneOf(const std::string& v, const std::set<std::string>& names,
             absl::string_view field) const {
    That(names.count(v) > 0, field,
         absl::StrCat("is \"", v, "\"; known: ", absl::StrJoin(names, ", ")));
  }
  void Exists(const std::string& path, absl::string_view field) const {
    std::error_code ec;
    That(std::filesystem::exists(path, ec), field,
         absl::StrCat("there is no ", path));
  }

 private:
  const std::string path_;
  std::vector<std::string>& out_;
};

void CheckModel(const Check& c, const ModelSpec& m, bool check_paths) {
  c.That(!m.config_json().empty() || !m.checkpoint_dir().empty(), "config_json",
         "missing, and there is no checkpoint_dir either");
  c.That(!m.tokenizer_dir().empty() || !m.checkpoint_dir().empty(),
         "tokenizer_dir", "missing, and there is no checkpoint_dir either");
  c.OneOf(m.dtype(), {"fp32", "bf16"}, "dtype");
  if (!check_paths) return;
  if (!m.config_json().empty()) c.Exists(m.config_json(), "config_json");
  if (!m.checkpoint_dir().empty())
    c.Exists(m.checkpoint_dir(), "checkpoint_dir");
  if (!m.tokenizer_dir().empty()) c.Exists(m.tokenizer_dir(), "tokenizer_dir");
}

void CheckTasks(const Check& c, const Tasks& t, bool check_paths) {
  c.That(!t.train_path().empty(), "train_path", "missing");
  if (!check_paths) return;
  if (!t.train_path().empty()) c.Exists(t.train_path(), "train_path");
  if (!t.heldout_path().empty()) c.Exists(t.heldout_path(), "heldout_path");
}

void CheckOptimizer(const Check& c, const Optimizer& o) {
  c.Positive(o.lr(), "lr");
  c.That(o.beta1() >= 0 && o.beta1() < 1, "beta1", "must be in [0, 1)");
  c.That(o.beta2() >= 0 && o.beta2() < 1, "beta2", "must be in [0, 1)");
  c.Positive(o.eps(), "eps");
  c.NotNegative(o.weight_decay(), "weight_decay");
  c.NotNegative(o.clip_norm(), "clip_norm");
  c.NotNegative(o.warmup_steps(), "warmup_steps");
  c.Within(o.final_lr_fraction(), 0, 1, "final_lr_fraction");
}

void CheckSft(const Check& c, const SftStage& s) {
  c.Within(s.mask_rate_max(), 0, 1, "mask_rate_max");
  c.That(s.mask_rate_min() >= 0 && s.mask_rate_min() < s.mask_rate_max(),
         "mask_rate_min", "must be in [0, mask_rate_max)");
  c.Positive(s.batch_size(), "batch_size");
  c.Within(s.good_fraction(), 0, 1, "good_fraction");
  c.Within(s.whole_fraction(), 0, 1, "whole_fraction");
}

void CheckReward(const Check& c, const Reward& r) {
  c.NotNegative(r.w_compile(), "w_compile");
  c.NotNegative(r.w_correct(), "w_correct");
  c.NotNegative(r.w_speed(), "w_speed");
  c.That(r.w_compile() + r.w_correct() + r.w_speed() > 0, "w_correct",
         "all weights are 0: every reward would be the same");
  c.That(r.speed_log2_min() < r.speed_log2_max(), "speed_log2_min",
         "must be below speed_log2_max");
  c.Within(r.library_factor(), 0, 1, "library_factor");
}

void CheckSampling(const Check& c, const SamplingConfig& s) {
  c.Positive(s.max_response_tokens(), "max_response_tokens");
  c.Within(s.confidence_threshold(), 0, 1, "confidence_threshold");
  c.Positive(s.steps_per_block(), "steps_per_block");
  c.NotNegative(s.top_k(), "top_k");
  c.Within(s.top_p(), 0, 1, "top_p");
  c.That(s.strategy() != ENTROPY_BOUNDED || s.entropy_bound() > 0,
         "entropy_bound", "ENTROPY_BOUNDED needs it above 0");
}

// The importance weight compares probabilities of the model, so the sampler
// must draw from exactly those.
void CheckOnPolicy(const Check& c, const SamplingConfig& s) {
  c.That(s.temperature() == 1, "temperature",
         absl::StrCat("RL samples at 1, is ", s.temperature()));
  c.That(s.top_k() == 0, "top_k", "RL refuses it: it breaks the ratio");
  c.That(s.top_p() == 0 || s.top_p() == 1, "top_p",
         "RL refuses it: it breaks the ratio");
  c.That(!s.greedy(), "greedy", "RL refuses it: it breaks the ratio");
}

void CheckLoss(const Check& c, const PolicyLoss& l) {
  c.That(l.clip_low() > 0 && l.clip_low() < 1, "clip_low", "must be in (0, 1)");
  c.Positive(l.clip_high(), "clip_high");
  c.NotNegative(l.kl_beta(), "kl_beta");
  c.NotNegative(l.importance_cap(), "importance_cap");
  c.NotNegative(l.entropy_bonus(), "entropy_bonus");
  c.NotNegative(l.entropy_bonus_decay_steps(), "entropy_bonus_decay_steps");
  c.NotNegative(l.negative_advantage_scale(), "negative_advantage_scale");
  c.That(l.normalizer() != CONSTANT || l.constant_length() > 0,
         "constant_length", "CONSTANT needs it above 0");
}

void CheckRl(const Check& c, const RlStage& rl, const Profile& profile) {
  c.That(rl.mode() != RESPONSE_MODE_UNSPECIFIED, "mode",
         "missing: END_TO_END, INFILL_FORCED or INFILL_PROMPT_ONLY");
  c.Positive(rl.tasks_per_step(), "tasks_per_step");
  c.That(rl.responses_per_task() >= 2, "responses_per_task",
         "an advantage needs at least 2");
  c.NotNegative(rl.max_staleness(), "max_staleness");
  c.That(rl.max_staleness() == 0 || rl.loss().importance_cap() > 0,
         "loss.importance_cap",
         "max_staleness above 0 needs it: stale samples must be corrected");
  c.That(rl.minibatches() >= 1 &&
             rl.minibatches() <= std::max(1, rl.tasks_per_step()),
         "minibatches", "must be in [1, tasks_per_step]");
  c.That(!rl.deterministic() || rl.reward().w_speed() == 0, "deterministic",
         "a measured time cannot be repeated bit for bit; set reward.w_speed "
         "to 0");
  c.That(rl.reward().w_speed() == 0 || profile.timing(), "reward.w_speed",
         "needs judge.profile.timing");
  CheckSampling(c.In("sampling"), rl.sampling());
  CheckOnPolicy(c.In("sampling"), rl.sampling());
  CheckLoss(c.In("loss"), rl.loss());
  CheckReward(c.In("reward"), rl.reward());
}

void CheckStage(const Check& c, const Stage& s, const Profile& profile) {
  c.OneOf(s.name(), {"sft", "infill", "end_to_end"}, "name");
  c.Positive(s.steps(), "steps");
  CheckOptimizer(c.In("optimizer"), s.optimizer());
  switch (s.kind_case()) {
    case Stage::kSft:
      c.That(s.name() == "sft", "name", "an sft stage is called sft");
      CheckSft(c.In("sft"), s.sft());
      break;
    case Stage::kRl: {
      const bool whole = s.rl().mode() == END_TO_END;
      c.That(s.name() == (whole ? "end_to_end" : "infill") ||
                 s.rl().mode() == RESPONSE_MODE_UNSPECIFIED,
             "name",
             absl::StrCat("is ", s.name(), ", but rl.mode is ",
                          ResponseMode_Name(s.rl().mode())));
      CheckRl(c.In("rl"), s.rl(), profile);
      break;
    }
    case Stage::KIND_NOT_SET:
      c.That(false, "kind", "missing: sft { } or rl { }");
  }
}

void CheckEvaluation(const Check& c, const Evaluation& e) {
  c.NotNegative(e.heldout_tasks(), "heldout_tasks");
  c.NotNegative(e.train_tasks(), "train_tasks");
  if (e.heldout_tasks() + e.train_tasks() == 0) return;
  c.Positive(e.samples_per_task(), "samples_per_task");
  CheckSampling(c.In("sampling"), e.sampling());
  CheckReward(c.In("reward"), e.reward());
}

void CheckJudge(const Check& c, const Judge& j) {
  c.OneOf(j.device(), {"auto", "cuda", "emulated"}, "device");
  c.OneOf(j.isolation(), {"auto", "full", "partial", "none"}, "isolation");
  c.Positive(j.worker_slots(), "worker_slots");
  c.Positive(j.queue_limit(), "queue_limit");
  c.NotNegative(j.profile().tolerance(), "profile.tolerance");
  c.Positive(j.profile().seeds(), "profile.seeds");
  c.Positive(j.profile().timeout_s(), "profile.timeout_s");
  c.NotNegative(j.profile().max_elements(), "profile.max_elements");
}

void CheckTopology(const Check& c, const Topology& t) {
  c.Positive(t.learner_ranks(), "learner_ranks");
  c.NotNegative(t.actors(), "actors");
  c.NotNegative(t.workers(), "workers");
  c.Positive(t.learner_threads(), "learner_threads");
  c.Positive(t.actor_threads(), "actor_threads");
  c.Positive(t.actor_batch(), "actor_batch");
}

}  // namespace

std::vector<std::string> Violations(const Config& config, bool check_paths) {
  std::vector<std::string> out;
  const Check c("", &out);
  c.That(config.name().find('/') == std::string::npos && config.name() != "." &&
             config.name() != "..",
         "name", "is a folder's name, without /");
  c.That(!config.name().empty(), "name", "missing: the run is runs/NAME");
  CheckModel(c.In("model"), config.model(), check_paths);
  CheckTasks(c.In("tasks"), config.tasks(), check_paths);
  c.That(config.stages_size() > 0, "stages", "there is none");
  for (int i = 0; i < config.stages_size(); ++i) {
    CheckStage(c.In(absl::StrCat("stages[", i, "]")), config.stages(i),
               config.judge().profile());
  }
  CheckEvaluation(c.In("evaluation"), config.evaluation());
  CheckJudge(c.In("judge"), config.judge());
  CheckTopology(c.In("topology"), config.topology());
  c.Positive(config.checkpointing().every_steps(), "checkpointing.every_steps");
  c.Positive(config.checkpointing().keep(), "checkpointing.keep");
  return out;
}

}  // namespace dice
