#include "learner/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/base/rng.h"
#include "common/tasks/schedule.h"
#include "learner/reward.h"

namespace dice {
namespace {

// Of the lease's random streams: apart from every stage's.
constexpr int32_t kEvaluationStage = 1 << 20;
// ordinal = (set * 2 + greedy) * kSetStride + task.
constexpr int64_t kSetStride = 1 << 24;
constexpr int kResamples = 2000;

std::vector<Task> Choose(const std::vector<Task>& from, int32_t count,
                         uint64_t seed) {
  std::vector<Task> out;
  if (count <= 0) return out;
  auto order = TaskSchedule::Create(SHUFFLED, from, seed);
  if (!order.ok()) return out;  // no usable task
  std::vector<bool> seen(from.size(), false);
  while (static_cast<int32_t>(out.size()) < count) {
    const size_t i = order->Next();
    if (seen[i]) break;  // a second epoch: all are taken
    seen[i] = true;
    out.push_back(from[i]);
  }
  return out;
}

void AddScores(const std::vector<Task>& tasks,
               google::protobuf::RepeatedPtrField<TaskScore>* out) {
  for (const Task& task : tasks) out->Add()->set_task_id(task.id());
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

EvaluationTasks ChooseEvaluationTasks(const Evaluation& config,
                                      const std::vector<Task>& train,
                                      const std::vector<Task>& heldout,
                                      uint64_t seed) {
  return {Choose(train, config.train_tasks(), seed),
          Choose(heldout, config.heldout_tasks(), seed)};
}

EvaluationPass::EvaluationPass(const Evaluation& config,
                               const EvaluationTasks& tasks, std::string label)
    : config_(config), tasks_(tasks) {
  scores_.set_label(std::move(label));
  AddScores(tasks.train, scores_.mutable_train());
  AddScores(tasks.heldout, scores_.mutable_heldout());
}

std::vector<Lease> EvaluationPass::Leases() const {
  std::vector<Lease> out;
  const auto add = [&](const std::vector<Task>& tasks, int64_t set,
                       bool greedy) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      Lease lease;
      lease.set_purpose(EVALUATE);
      *lease.mutable_task() = tasks[i];
      lease.set_mode(config_.mode());
      lease.set_num_samples(greedy ? 1 : config_.samples_per_task());
      *lease.mutable_sampling() = config_.sampling();
      lease.mutable_sampling()->set_greedy(greedy);
      lease.set_stage(kEvaluationStage);
      lease.set_task_ordinal((set * 2 + greedy) * kSetStride +
                             static_cast<int64_t>(i));
      out.push_back(std::move(lease));
    }
  };
  for (const bool greedy : {false, true}) {
    if (greedy && !config_.greedy()) continue;
    add(tasks_.heldout, 1, greedy);
    add(tasks_.train, 0, greedy);
  }
  return out;
}

TaskScore* EvaluationPass::ScoreOf(int64_t ordinal) {
  const bool heldout = ordinal / kSetStride >= 2;
  return (heldout ? scores_.mutable_heldout() : scores_.mutable_train())
      ->Mutable(static_cast<int>(ordinal % kSetStride));
}

void EvaluationPass::Add(const CompletedGroup& group) {
  TaskScore* score = ScoreOf(group.lease.task_ordinal());
  for (const Rollout& r : group.rollouts) {
    const auto reward = ComputeReward(config_.reward(), r);
    if (!reward.has_value()) continue;
    const bool correct = Correct(r.verdict());
    if (group.lease.sampling().greedy()) {
      score->set_greedy_samples(score->greedy_samples() + 1);
      score->set_greedy_correct(score->greedy_correct() + correct);
      continue;
    }
    score->set_samples(score->samples() + 1);
    score->set_reward_sum(score->reward_sum() + *reward);
    score->set_correct(score->correct() + correct);
    if (correct && r.verdict().speedup() > 0) {
      score->set_log_speedup_sum(score->log_speedup_sum() +
                                 std::log(r.verdict().speedup()));
      score->set_timed(score->timed() + 1);
    }
  }
}

ScoreSummary Summarize(
    const google::protobuf::RepeatedPtrField<TaskScore>& scores) {
  ScoreSummary out;
  double tasks = 0, greedy = 0, log_speedup = 0, timed = 0;
  for (const TaskScore& s : scores) {
    if (s.samples() > 0) {
      ++tasks;
      out.reward += s.reward_sum() / s.samples();
      out.correct += static_cast<double>(s.correct()) / s.samples();
    }
    greedy += s.greedy_samples();
    out.greedy_correct += s.greedy_correct();
    log_speedup += s.log_speedup_sum();
    timed += s.timed();
  }
  out.reward = Ratio(out.reward, tasks);
  out.correct = Ratio(out.correct, tasks);
  out.greedy_correct = Ratio(out.greedy_correct, greedy);
  out.speedup = timed > 0 ? std::exp(log_speedup / timed) : 0;
  return out;
}

Gain RewardGain(const google::protobuf::RepeatedPtrField<TaskScore>& before,
                const google::protobuf::RepeatedPtrField<TaskScore>& after,
                uint64_t seed) {
  std::map<std::string, double> start;
  for (const TaskScore& s : before) {
    if (s.samples() > 0) start[s.task_id()] = s.reward_sum() / s.samples();
  }
  std::vector<double> d;
  for (const TaskScore& s : after) {
    const auto it = start.find(s.task_id());
    if (s.samples() == 0 || it == start.end()) continue;
    d.push_back(s.reward_sum() / s.samples() - it->second);
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (d.empty()) return {kNone, kNone, kNone};
  Gain out;
  for (const double x : d) out.mean += x / static_cast<double>(d.size());
  Rng rng(StreamKey(seed).Derive({0xb007}));
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    mean = 0;
    for (size_t i = 0; i < d.size(); ++i) mean += d[rng.Below(d.size())];
    mean /= static_cast<double>(d.size());
  }
  std::sort(means.begin(), means.end());
  out.lo = means[kResamples / 40];
  out.hi = means[kResamples - 1 - kResamples / 40];
  return out;
}

}  // namespace dice
