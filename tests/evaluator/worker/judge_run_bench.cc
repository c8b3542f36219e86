// By hand, never by ctest: what one evaluation costs without a compile.
//   judge_run_bench [N]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "evaluator/sandbox/jail.h"
#include "evaluator/worker/judge_places.h"
#include "evaluator/worker/judge_run.h"

namespace dice {
namespace {

constexpr char kReference[] = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)
def get_inputs():
    return [torch.randn(32, 32)]
)";
constexpr char kCandidate[] = R"(
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(torch.add(x * 2, 1), min=0)
)";

class NoCompiler : public Compiler {
 public:
  absl::StatusOr<CompileResult> Compile(const CompileRequest&) override {
    return absl::UnimplementedError("none");
  }
};

double CpuSeconds(int who) {
  rusage u;
  getrusage(who, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
         1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void Run(int n) {
  const auto places = FindJudgePlaces("", "");
  DICE_CHECK_OK(places.status());
  auto zygote = Zygote::Start({.python = places->python,
                               .harness_dir = places->harness_dir,
                               .jail_library = places->jail_library,
                               .level = DICE_JAIL_FULL,
                               .log_path = "/tmp/judge_run_bench.log"});
  DICE_CHECK_OK(zygote.status());
  Task task;
  task.set_reference_source(kReference);
  absl::Time t = absl::Now();
  auto oracle = Oracle::Start(**zygote, {}, task, Profile(), 7);
  DICE_CHECK_OK(oracle.status());
  std::printf("oracle ready      %8.2f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - t));
  NoCompiler compiler;
  absl::Duration fork, load, check, time, load_cpu, check_cpu, cpu;
  MeasuredTime measured;
  for (int i = -3; i < n; ++i) {
    if (i == 0) {
      fork = load = check = time = load_cpu = check_cpu = cpu =
          absl::ZeroDuration();
    }
    absl::Time mark = absl::Now();
    const auto lap = [&](absl::Duration& into) {
      const absl::Time now = absl::Now();
      into += now - mark;
      mark = now;
    };
    {
      auto child = (*zygote)->Fork("runner", {});
      DICE_CHECK_OK(child.status());
      (*child)->Kill();
      DICE_CHECK_OK(
          (*zygote)
              ->AwaitExit((*child)->pid(), absl::Now() + absl::Seconds(9))
              .status());
    }
    lap(fork);
    CandidateRun run({**zygote, compiler, **oracle},
                     {.timeout = absl::Seconds(20), .cuda_names = false}, {});
    DICE_CHECK(!run.Load(kCandidate)->has_value());
    lap(load);
    load_cpu += *run.CpuTime();
    Comparison c;
    for (int s = 0; s < 3; ++s) {
      DICE_CHECK(!run.CheckSet(s, 0, &c)->has_value());
    }
    lap(check);
    check_cpu += *run.CpuTime();
    DICE_CHECK(!run.Time(0, &measured)->has_value());
    lap(time);
    cpu += *run.CpuTime();
  }
  const auto show = [&](const char* name, absl::Duration d) {
    std::printf("%-17s %8.2f ms\n", name, absl::ToDoubleMilliseconds(d) / n);
  };
  show("fork + kill", fork);
  show("load", load);
  show("3 sets", check);
  show("timing", time);
  show("runner CPU: load", load_cpu);
  show("  + 3 sets", check_cpu);
  show("  + timing", cpu);
  std::printf("one call          %8.2f us [%.2f, %.2f]\n",
              measured.seconds * 1e6, measured.lo * 1e6, measured.hi * 1e6);
  const double own = CpuSeconds(RUSAGE_SELF);
  zygote->reset();
  std::printf("CPU in all        %8.2f s here, %.2f s in Python\n", own,
              CpuSeconds(RUSAGE_CHILDREN));
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  int n = 50;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &n)) return 2;
  dice::Run(n);
}
