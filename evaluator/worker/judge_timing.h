// What a kernel's time is on the emulated device.
//
// The clock is the CPU time of the whole runner process, all its threads, read
// by the supervisor from outside. It is read before the inputs of a burst are
// written and after its outputs were copied away, so that work before, between
// or after the calls counts, wherever it is hidden; waiting costs nothing and
// gains nothing. The credited time is (T[4n calls] - T[n calls]) / 3n: what a
// burst costs beside its calls cancels out. Each call has inputs of its own
// that no earlier call had, so an answer kept from before is wrong.
#ifndef DICE_EVALUATOR_WORKER_JUDGE_TIMING_H_
#define DICE_EVALUATOR_WORKER_JUDGE_TIMING_H_

#include <vector>

namespace dice {

// Seconds per call; [lo, hi] is meant to hold the true value 19 times in 20.
struct MeasuredTime {
  double seconds = 0, lo = 0, hi = 0;
};

// From CPU seconds of bursts of n calls (`small`) and of 4n calls (`large`), at
// least two of each. Disturbances only ever add time, so the least of each kind
// decides; the interval is what the two best of each kind allow, and never
// narrower than 2 % to either side.
MeasuredTime CreditedTime(std::vector<double> small, std::vector<double> large,
                          int n);

// Baseline over candidate; intervals combined conservatively.
struct Speedup {
  double ratio = 0, lo = 0, hi = 0;
};
Speedup SpeedupOver(const MeasuredTime& baseline,
                    const MeasuredTime& candidate);

}  // namespace dice

#endif  // DICE_EVALUATOR_WORKER_JUDGE_TIMING_H_
