// Real oracles and runners in the real sandbox; candidates are plain PyTorch,
// so no compiler is needed (the one here refuses).
#include "evaluator/worker/judge_run.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/process.h"
#include "evaluator/sandbox/jail.h"
#include "evaluator/worker/judge_places.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dice {
namespace {

constexpr char kReference[] = R"(
import torch
class Model(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(k))
    def forward(self, x):
        return torch.relu(x * self.w + 1)
def get_inputs():
    return [torch.randn(6, 8)]
def get_init_inputs():
    return [8]
)";
constexpr char kHonest[] = R"(
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(k))
    def forward(self, x):
        return torch.clamp(torch.addcmul(torch.ones(()), x, self.weight), min=0)
)";

class RefusingCompiler : public Compiler {
 public:
  absl::StatusOr<CompileResult> Compile(const CompileRequest& r) override {
    CompileResult out;
    out.kind = CompileResult::Kind::kError;
    out.text = "no compiler here: " + r.cuda_sources.at(0);
    return out;
  }
};

std::string ModelNew(const std::string& body, const std::string& top = "") {
  return absl::StrCat("import torch, os, sys, time, socket, subprocess\n", top,
                      "\nclass ModelNew(torch.nn.Module):\n"
                      "    def __init__(self, k):\n"
                      "        super().__init__()\n"
                      "        self.w = torch.nn.Parameter(torch.randn(k))\n"
                      "    def forward(self, x):\n        ",
                      body, "\n");
}

class CandidateRunTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto places = FindJudgePlaces("", "");
    ASSERT_TRUE(places.ok()) << places.status();
    auto zygote = Zygote::Start(
        {.python = places->python,
         .harness_dir = places->harness_dir,
         .jail_library = places->jail_library,
         .level = DICE_JAIL_FULL,
         .log_path = testing::TempDir() + absl::StrCat("/zygote", getpid())});
    ASSERT_TRUE(zygote.ok()) << zygote.status();
    zygote_ = std::move(*zygote).release();
  }
  static void TearDownTestSuite() {
    delete zygote_;
    zygote_ = nullptr;
  }

  void SetUp() override {
    ASSERT_NE(zygote_, nullptr);
    limits_.memory_bytes = int64_t{512} << 20;
    oracle_ = *StartOracle(kReference);
  }

  absl::StatusOr<std::shared_ptr<Oracle>> StartOracle(const std::string& ref) {
    Task task;
    task.set_reference_source(ref);
    return Oracle::Start(*zygote_, limits_, task, Profile(), 1234);
  }

  // "OUTCOME message" or "accepted".
  std::string Judge(const std::string& candidate, double timeout_s = 10,
                    bool timed = false) {
    CandidateRun run({*zygote_, compiler_, *oracle_},
                     {.limits = limits_,
                      .timeout = absl::Seconds(timeout_s),
                      .cuda_names = false},
                     {});
    const auto text = [](const CandidateRun::Step& step) -> std::string {
      if (!step.ok()) return "STATUS " + step.status().ToString();
      if (!step->has_value()) return "";
      return absl::StrCat(Outcome_Name((*step)->outcome), " ",
                          (*step)->message);
    };
    std::string end = text(run.Load(candidate));
    for (int i = 0; i < 3 && end.empty(); ++i) {
      Comparison c;
      end = text(run.CheckSet(i, 0, &c));
    }
    MeasuredTime time;
    if (end.empty() && timed) end = text(run.Time(0, &time));
    return end.empty() ? "accepted" : end;
  }

  ChildLimits limits_;
  RefusingCompiler compiler_;
  static inline Zygote* zygote_ = nullptr;  // importing torch takes seconds
  std::shared_ptr<Oracle> oracle_;
};

struct Case {
  std::string name, candidate, outcome;
};

TEST_F(CandidateRunTest, EachKindOfProgramGetsItsOwnVerdictAndTheJudgeLives) {
  const std::vector<Case> cases = {
      {"honest, other parameter names", kHonest, "accepted"},
      {"the reference itself", absl::StrCat(kReference, "\nModelNew = Model"),
       "accepted"},
      {"not Python", "int main() { return 0; }", "PARSE_ERROR SyntaxError"},
      {"no ModelNew", "x = 1", "PARSE_ERROR"},
      {"wrong", ModelNew("return torch.relu(x * self.w)"),
       "WRONG_RESULT .*first at flat index .*expected .*got"},
      {"right at the first call only",
       ModelNew("self.n = getattr(self, 'n', 0) + 1\n"
                "        return torch.relu(x * self.w + 1) * (self.n < 2)"),
       "WRONG_RESULT"},
      {"wrong shape", ModelNew("return torch.relu(x * self.w + 1)[:3]"),
       "WRONG_RESULT shape"},
      {"wrong type", ModelNew("return torch.relu(x * self.w + 1).double()"),
       "WRONG_RESULT dtype"},
      {"returns text", ModelNew("return 'correct'"), "WRONG_RESULT"},
      {"NaN", ModelNew("return x * float('nan')"), "WRONG_RESULT"},
      {"does not compile",
       "from torch.utils.cpp_extension import load_inline\n"
       "m = load_inline(name='m', cpp_sources='', cuda_sources='SRC',"
       " functions=['f'])",
       "COMPILE_ERROR no compiler here: SRC"},
      {"swallows its compile error",
       "from torch.utils.cpp_extension import load_inline\ntry:\n"
       "    load_inline(name='m', cpp_sources='', cuda_sources='SRC',"
       " functions=['f'])\nexcept BaseException: pass\n" +
           std::string(kHonest),
       "COMPILE_ERROR"},
      {"raises when loaded", ModelNew("pass", "raise ValueError('early')"),
       "LOAD_ERROR ValueError: early"},
      {"sys.exit", ModelNew("sys.exit(0)"), "RUNTIME_ERROR SystemExit"},
      {"exits cleanly", ModelNew("os._exit(0)"),
       "RUNTIME_ERROR the process exited .code 0. instead of answering"},
      {"prints a fake verdict and exits",
       ModelNew("pass",
                "print('{\"outcome\": \"CORRECT\", \"speedup\": 99}', "
                "flush=True); os._exit(0)"),
       "LOAD_ERROR the process exited"},
      {"forges messages on the control channel",
       ModelNew("pass",
                "for fd in range(3, 30):\n"
                "    try: socket.socket(fileno=fd).send("
                "b'{\"op\": \"outputs\", \"ok\": true}')\n"
                "    except OSError: pass\n"),
       "SANDBOX_VIOLATION spoke out of turn"},
      {"loops for ever", ModelNew("while True: pass"), "TIMEOUT not finished"},
      {"sleeps for ever", ModelNew("time.sleep(1000)"), "TIMEOUT"},
      {"segfault", ModelNew("import ctypes; ctypes.string_at(0)"),
       "RUNTIME_ERROR died of signal 11"},
      // The init of a pid namespace ignores SIGABRT; abort() then faults.
      {"abort", ModelNew("os.abort()"), "RUNTIME_ERROR died of signal (6|11)"},
      {"allocates without end",
       ModelNew("a = []\n        while True: a.append(torch.ones(1 << 22))"),
       "MEMORY_LIMIT"},
      {"forks", ModelNew("os.fork()"), "SANDBOX_VIOLATION"},
      {"starts a program", ModelNew("subprocess.run(['/bin/true'])"),
       "SANDBOX_VIOLATION"},
      {"network", ModelNew("socket.socket().connect(('127.0.0.1', 1))"),
       "SANDBOX_VIOLATION"},
      {"traces",
       ModelNew("import ctypes; ctypes.CDLL(None).ptrace(16, 1, 0, 0)"),
       "SANDBOX_VIOLATION"},
      {"reads the host's files", ModelNew("open('/etc/passwd').read()"),
       "RUNTIME_ERROR FileNotFoundError"},
      {"writes to the harness",
       ModelNew("import evaluator.runner.runner as r; "
                "open(r.__file__, 'w').write('')"),
       "RUNTIME_ERROR (OSError|PermissionError)"},
      {"kills everything it can see",
       ModelNew("os.kill(-1, 9); os.kill(1, 9); os.kill(os.getppid() or 1, 9);"
                " return x"),
       "(RUNTIME_ERROR|WRONG_RESULT)"},
      {"fills the disk",
       ModelNew("f = open('/tmp/x', 'wb')\n"
                "        while True: f.write(bytes(1 << 20)); f.flush()"),
       "RUNTIME_ERROR OSError"},
      {"floods stdout",
       ModelNew("print('x' * (1 << 24)); return torch.relu(x * self.w + 1)"),
       "accepted"},
      {"changes its inputs and answers with them",
       ModelNew("x.zero_(); return x"), "WRONG_RESULT"},
      {"right, but changes its inputs",
       ModelNew("y = torch.relu(x * self.w + 1); x[0, 0] += 1; return y"),
       "WRONG_RESULT changed its inputs"},
      {"answers, and keeps the answer open for writing",
       ModelNew("return torch.relu(x * self.w + 1)",
                "import evaluator.runner.wire as w, mmap\n"
                "keep, old = [], w.write\n"
                "def write(fd, v):\n"
                "    old(fd, v); keep.append(mmap.mmap(fd, 0))\n"
                "w.write = write"),
       "SANDBOX_VIOLATION kept its outputs open"},
      {"makes a file in memory", ModelNew("os.memfd_create('x'); return x"),
       "RUNTIME_ERROR PermissionError"},
      {"shares memory behind the limits",
       ModelNew("import ctypes; c = ctypes.CDLL(None)\n"
                "        if c.shmget(0, 1 << 30, 0o600) < 0: "
                "raise MemoryError('no')"),
       "MEMORY_LIMIT"},
      {"starts threads without end",
       ModelNew("import threading\n"
                "        while True: threading.Thread(target=time.sleep, "
                "args=(99,), daemon=True).start()"),
       "RUNTIME_ERROR RuntimeError: can't start new thread"},
      {"patched comparison",
       ModelNew("return x",
                "torch.allclose = lambda *a, **k: True\n"
                "torch.Tensor.__eq__ = lambda *a: torch.tensor(True)\n"
                "import evaluator.oracle.oracle as o\n"
                "o.compare_tensor = lambda *a: {'ok': True}"),
       "WRONG_RESULT"},
      {"looks for the expected output in memory",
       ModelNew("import gc\n"
                "        for t in gc.get_objects():\n"
                "            if isinstance(t, torch.Tensor) and t.shape == "
                "x.shape and t is not x: return t\n"
                "        return x"),
       "WRONG_RESULT"},
      {"returns a lazy tensor",
       ModelNew("return x.as_subclass(Lazy)", "class Lazy(torch.Tensor): pass"),
       "WRONG_RESULT"},
      {"honest again", kHonest, "accepted"},
  };
  for (const Case& c : cases) {
    const bool hangs = c.outcome.rfind("TIMEOUT", 0) == 0;
    const absl::Time begin = absl::Now();
    EXPECT_THAT(Judge(c.candidate, hangs ? 1 : 20),
                testing::ContainsRegex("^" + c.outcome))
        << c.name;
    EXPECT_LT(absl::Now() - begin, absl::Seconds(25)) << c.name;
  }
}

TEST_F(CandidateRunTest, AnswersOfTimedCallsMustBeFreshAndInTime) {
  const std::string right = "torch.relu(x * self.w + 1)";
  const std::vector<Case> cases = {
      {"honest", ModelNew("return " + right), "accepted"},
      {"cached by address",
       ModelNew("self.c = getattr(self, 'c', {})\n"
                "        self.n = getattr(self, 'n', 0) + 1\n"
                "        k = x.data_ptr()\n"
                "        if k not in self.c or self.n < 4: self.c[k] = " +
                right + "\n        return self.c[k]"),
       "WRONG_RESULT in a timed call"},
      {"cached by shape and a sample",
       ModelNew("self.c = getattr(self, 'c', {})\n"
                "        k = (x.shape, float(x[0, 0]) > 0)\n"
                "        if k not in self.c: self.c[k] = " +
                right + "\n        return self.c[k]"),
       "WRONG_RESULT"},
      {"lazy from the fifth call on",
       ModelNew("self.n = getattr(self, 'n', 0) + 1\n"
                "        if self.n < 5: self.y = " +
                right + "\n        return self.y"),
       "WRONG_RESULT in a timed call"},
      {"answers in the background",
       ModelNew("import threading\n"
                "        self.n = getattr(self, 'n', 0) + 1\n"
                "        if self.n < 5: return " +
                right +
                "\n        y = torch.zeros_like(x)\n"
                "        threading.Thread(target=lambda: "
                "(time.sleep(.01), y.copy_(" +
                right + "))).start()\n        return y"),
       "WRONG_RESULT in a timed call"},
      {"skips the burst and says it is done",
       ModelNew("return " + right,
                "import evaluator.runner.runner as r\n"
                "r.burst = lambda *a: None"),
       "WRONG_RESULT in a timed call"},
      {"honest again", ModelNew("return " + right), "accepted"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Judge(c.candidate, 20, /*timed=*/true),
                testing::ContainsRegex("^" + c.outcome))
        << c.name;
  }
}

TEST_F(CandidateRunTest, TasksThatCannotBeJudgedSayWhy) {
  const auto reason = [&](const std::string& body, const std::string& inputs) {
    const auto o = StartOracle(
        absl::StrCat("import torch\nclass Model(torch.nn.Module):\n"
                     "    def forward(self, x):\n        ",
                     body, "\ndef get_inputs():\n    return [", inputs, "]\n"));
    EXPECT_TRUE(absl::IsFailedPrecondition(o.status())) << body;
    return std::string(o.status().message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(reason("return x * 0", "torch.randn(4)"),
              HasSubstr("zeros would pass"));
  EXPECT_THAT(reason("return x", "torch.randn(4)"),
              HasSubstr("a copy of input 0 would pass"));
  EXPECT_THAT(reason("return x + torch.rand(4, generator=torch.Generator()."
                     "manual_seed(__import__('time').time_ns() % 9999))",
                     "torch.randn(4)"),
              HasSubstr("fails against itself"));
  EXPECT_THAT(reason("raise ValueError('no')", "torch.randn(4)"),
              HasSubstr("the reference fails: ValueError: no"));
}

TEST_F(CandidateRunTest, NothingSurvivesAKill) {
  const auto run = [&] { return zygote_->Fork("runner", limits_); };
  pid_t pid;
  {
    auto child = run();
    ASSERT_TRUE(child.ok());
    pid = (*child)->pid();
    EXPECT_TRUE((*child)->CpuTime().ok());
  }
  EXPECT_EQ(*zygote_->AwaitExit(pid, absl::Now() + absl::Seconds(5)), -9);
}

TEST_F(CandidateRunTest, TimesHonestlyFromOutside) {
  const auto time = [&](const std::string& body) {
    CandidateRun run(
        {*zygote_, compiler_, *oracle_},
        {.limits = limits_, .timeout = absl::Seconds(30), .cuda_names = false},
        {});
    EXPECT_EQ(*run.Load(ModelNew(body)), std::nullopt);
    Comparison c;
    EXPECT_EQ(*run.CheckSet(0, 0, &c), std::nullopt);
    MeasuredTime t;
    EXPECT_EQ(*run.Time(0, &t), std::nullopt);
    EXPECT_LE(t.lo, t.seconds);
    EXPECT_LE(t.seconds, t.hi);
    return t.seconds;
  };
  const std::string honest = "return torch.relu(x * self.w + 1)";
  // Patching clocks inside changes nothing; the work itself is what counts.
  const double plain = time(honest);
  const double patched = time("time.perf_counter = lambda: 0; " + honest);
  const double slow = time("[torch.exp(x) for _ in range(200)]; " + honest);
  EXPECT_GT(slow, 5 * plain);
  EXPECT_GT(patched, 0.3 * plain);
}

}  // namespace
}  // namespace dice
