#include "evaluator/worker/synthetic_judge.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/rpc/backoff.h"

namespace dice {
namespace {

// key -> value of the candidate's "# synthetic:" line; `crash` has no value.
std::map<std::string, std::string> Script(const std::string& candidate) {
  constexpr absl::string_view kMark = "# synthetic:";
  std::map<std::string, std::string> out;
  const size_t mark = candidate.find(kMark.data());
  if (mark == candidate.npos) return out;
  const size_t begin = mark + kMark.size();
  const absl::string_view line = absl::string_view(candidate).substr(
      begin, candidate.find('\n', begin) - begin);
  for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    out.insert(absl::StrSplit(word, absl::MaxSplits('=', 1)));
  }
  return out;
}

}  // namespace

absl::StatusOr<Verdict> SyntheticJudge::Evaluate(const Task& task,
                                                 const std::string& candidate,
                                                 const Profile& profile) {
  return EvaluateControlled(task, candidate, profile, {});
}

absl::StatusOr<Verdict> SyntheticJudge::EvaluateControlled(
    const Task& task, const std::string& candidate, const Profile& profile,
    const EvaluationControl& control) {
  if (control.on_stage) control.on_stage(STAGE_CORRECTNESS);
  {
    MutexLock lock(mu_);
    ++calls_[candidate];
  }
  const auto script = Script(candidate);
  if (script.count("crash") > 0) std::abort();
  absl::Duration duration = duration_;
  double ms = 0;
  if (script.count("ms") > 0 && absl::SimpleAtod(script.at("ms"), &ms)) {
    duration = absl::Milliseconds(ms);
  }
  // Stopped by either: the evaluation's own token or Shutdown.
  std::stop_source either;
  std::stop_callback a(control.stop, [&] { either.request_stop(); });
  std::stop_callback b(stop_.get_token(), [&] { either.request_stop(); });
  if (!SleepUnlessStopped(clock_, duration, either.get_token())) {
    return absl::CancelledError("stopped");
  }
  if (script.count("infra") > 0) {
    return absl::UnavailableError(script.at("infra"));
  }
  Verdict verdict;
  Outcome outcome = CORRECT;
  if (script.count("outcome") > 0) {
    Outcome_Parse(script.at("outcome"), &outcome);
  }
  verdict.set_outcome(outcome);
  verdict.set_blame(BLAME_CANDIDATE);
  verdict.set_stage(STAGE_CORRECTNESS);
  verdict.set_error_index(-1);
  verdict.set_isolation(isolation());
  verdict.set_device(device());
  verdict.set_harness_version(harness_version());
  verdict.mutable_stage_s()->set_correctness(absl::ToDoubleSeconds(duration));
  return verdict;
}

std::map<std::string, int> SyntheticJudge::calls() const {
  MutexLock lock(mu_);
  return calls_;
}

}  // namespace dice
