#include "evaluator/worker/judge_timing.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "evaluator/worker/judge_run.h"

namespace dice {
namespace {

constexpr double kClockFloor = 1e-7;     // no call is credited with less
constexpr double kLeastInterval = 0.02;  // of the time, to either side
constexpr double kSlowCallSeconds = 0.1;
constexpr int kMaxCalls = 64;  // of the long burst
constexpr int64_t kMaxRingBytes = int64_t{8} << 20;
constexpr double kSmallBurstSeconds = 0.3e-3;

int Repeats(double seconds_per_call) {
  if (seconds_per_call > 10e-3) return 2;
  return seconds_per_call > 1e-3 ? 3 : 5;
}

// As many calls as fit into kMaxRingBytes; a multiple of 4.
int CallsOfLongBurst(int inputs_fd) {
  struct stat st = {};
  fstat(inputs_fd, &st);
  int calls = kMaxCalls;
  while (calls > 4 && calls * st.st_size > kMaxRingBytes) calls /= 2;
  return calls;
}

}  // namespace

MeasuredTime CreditedTime(std::vector<double> small, std::vector<double> large,
                          int n) {
  std::sort(small.begin(), small.end());
  std::sort(large.begin(), large.end());
  const auto credit = [&](double of_large, double of_small) {
    return std::max(kClockFloor, (of_large - of_small) / (3 * n));
  };
  MeasuredTime t;
  t.seconds = credit(large[0], small[0]);
  t.lo = std::min(credit(large[0], small[1]), (1 - kLeastInterval) * t.seconds);
  t.hi = std::max(credit(large[1], small[0]), (1 + kLeastInterval) * t.seconds);
  return t;
}

Speedup SpeedupOver(const MeasuredTime& baseline,
                    const MeasuredTime& candidate) {
  return {.ratio = baseline.seconds / candidate.seconds,
          .lo = baseline.lo / candidate.hi,
          .hi = baseline.hi / candidate.lo};
}

CandidateRun::Step CandidateRun::MakeRing(int calls, Ring* ring) {
  ring->calls = calls;
  DICE_ASSIGN_OR_RETURN(const int zeros, deps_.oracle.Burst(0, calls));
  DICE_ASSIGN_OR_RETURN(const int slots, deps_.oracle.Slots(calls));
  DICE_ASSIGN_OR_RETURN(ring->inputs, CopyMemfd(zeros));
  DICE_ASSIGN_OR_RETURN(ring->outputs, CopyMemfd(slots));
  (void)child_->channel().Send({{"op", "ring"}},
                               {ring->inputs.get(), ring->outputs.get()});
  ChannelMessage ready;
  return Await(STAGE_TIMING, &ready);
}

CandidateRun::Step CandidateRun::Burst(int which, int index, int n,
                                       double tolerance, double* seconds) {
  Ring& ring = rings_[which];
  DICE_ASSIGN_OR_RETURN(const int inputs,
                        deps_.oracle.Burst(index, ring.calls));
  const auto before = child_->CpuTime();
  DICE_RETURN_IF_ERROR(CopyBytes(inputs, ring.inputs.get()));
  (void)child_->channel().Send({{"op", "burst"}, {"ring", which}, {"n", n}});
  ChannelMessage message;
  DICE_ASSIGN_OR_RETURN(const auto ending, Await(STAGE_TIMING, &message));
  if (ending.has_value()) return ending;
  // What is not there yet is never seen.
  DICE_ASSIGN_OR_RETURN(const OwnedFd outputs, CopyMemfd(ring.outputs.get()));
  const auto after = child_->CpuTime();
  if (!before.ok() || !after.ok()) {
    return Ending{RUNTIME_ERROR, "ended while it was timed"};
  }
  *seconds = absl::ToDoubleSeconds(*after - *before);
  DICE_ASSIGN_OR_RETURN(const Comparison c,
                        deps_.oracle.CompareBurst(index, ring.calls, n,
                                                  outputs.get(), tolerance));
  if (!c.ok) {
    return Ending{WRONG_RESULT, absl::StrCat("in a timed call: ", c.text)};
  }
  return std::nullopt;
}

CandidateRun::Step CandidateRun::Time(double tolerance, MeasuredTime* time) {
  DICE_ASSIGN_OR_RETURN(const int inputs, deps_.oracle.Inputs(0));
  const int long_calls = CallsOfLongBurst(inputs);
  DICE_ASSIGN_OR_RETURN(auto ending, MakeRing(long_calls / 4, &rings_[0]));
  if (ending.has_value()) return ending;
  DICE_ASSIGN_OR_RETURN(ending, MakeRing(long_calls, &rings_[1]));
  if (ending.has_value()) return ending;
  // A first burst warms up and chooses n.
  double seconds = 0;
  DICE_ASSIGN_OR_RETURN(ending, Burst(0, 1, 1, tolerance, &seconds));
  if (ending.has_value()) return ending;
  if (seconds > kSlowCallSeconds) {
    // A burst costs nothing beside such a call; one more shows the spread.
    double again = 0;
    DICE_ASSIGN_OR_RETURN(ending, Burst(0, 2, 1, tolerance, &again));
    if (ending.has_value()) return ending;
    *time = {.seconds = std::min(seconds, again),
             .lo = (1 - kLeastInterval) * std::min(seconds, again),
             .hi = (1 + kLeastInterval) * std::max(seconds, again)};
    return std::nullopt;
  }
  const int probes = std::min(rings_[0].calls, 4);
  DICE_ASSIGN_OR_RETURN(ending, Burst(0, 2, probes, tolerance, &seconds));
  if (ending.has_value()) return ending;
  const double per_call = seconds / probes;
  const int n = std::clamp(static_cast<int>(kSmallBurstSeconds / per_call) + 1,
                           1, rings_[0].calls);
  std::vector<double> of[2];
  const int repeats = Repeats(per_call);
  for (int r = 0; r < repeats; ++r) {
    for (const int which : {0, 1}) {
      const int calls = which == 0 ? n : 4 * n;
      DICE_ASSIGN_OR_RETURN(ending,
                            Burst(which, 3 + r, calls, tolerance, &seconds));
      if (ending.has_value()) return ending;
      of[which].push_back(seconds);
    }
  }
  *time = CreditedTime(std::move(of[0]), std::move(of[1]), n);
  return std::nullopt;
}

}  // namespace dice
