#include "evaluator/worker/judge_run.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Milliseconds(50);
constexpr int64_t kMaxSourceBytes = 4 << 20;
constexpr size_t kMaxMessage = 4000;

Outcome OutcomeAt(JudgeStage stage) {
  return stage == STAGE_LOAD ? LOAD_ERROR : RUNTIME_ERROR;
}

std::vector<std::string> Strings(const nlohmann::json& tree, const char* key) {
  // {"d": [[key, {"l": [{"v": text}, ...]}], ...]}, written by a hostile peer.
  std::vector<std::string> out;
  if (!tree.is_object() || !tree.contains("d")) return out;
  for (const auto& pair : tree["d"]) {
    if (!pair.is_array() || pair.size() != 2 || pair[0] != key) continue;
    if (!pair[1].is_object() || !pair[1].contains("l")) continue;
    for (const auto& item : pair[1]["l"]) {
      if (item.is_object() && item.contains("v") && item["v"].is_string()) {
        out.push_back(item["v"].get<std::string>());
      }
    }
  }
  return out;
}

}  // namespace

Ending CandidateRun::FromExit(JudgeStage stage, int code) const {
  if (code == -SIGSYS) {
    return {SANDBOX_VIOLATION,
            "killed for a forbidden system call (a new process, a network "
            "socket, tracing or mounting)"};
  }
  if (code == -SIGXCPU) return {TIMEOUT, "used up its CPU time"};
  if (code == -SIGXFSZ) return {MEMORY_LIMIT, "wrote more than its file limit"};
  if (code < 0) {
    return {OutcomeAt(stage), absl::StrCat("died of signal ", -code, " (",
                                           strsignal(-code), ")")};
  }
  return {OutcomeAt(stage), absl::StrCat("the process exited (code ", code,
                                         ") instead of answering")};
}

Ending CandidateRun::FromFailure(const nlohmann::json& body) const {
  const std::string stage = body.value("stage", "");
  const std::string text = body.value("text", "").substr(0, kMaxMessage);
  if (stage == "compile" && compile_ending_.has_value()) {
    return *compile_ending_;
  }
  if (body.value("kind", "") == "memory") return {MEMORY_LIMIT, text};
  if (stage == "parse") return {PARSE_ERROR, text};
  if (stage == "run") return {RUNTIME_ERROR, text};
  return {LOAD_ERROR, text};
}

absl::StatusOr<std::optional<Ending>> CandidateRun::Await(
    JudgeStage stage, ChannelMessage* message) {
  while (true) {
    const absl::Time slice = std::min(deadline_, absl::Now() + kWatchPeriod);
    auto got = child_->channel().Receive(slice);
    if (got.ok()) {
      *message = std::move(*got);
      if (message->body.value("op", "") == "failed") {
        return FromFailure(message->body);
      }
      return std::nullopt;
    }
    if (absl::IsInvalidArgument(got.status())) {
      child_->Kill();
      return Ending{SANDBOX_VIOLATION, "wrote garbage on the control channel"};
    }
    if (absl::IsUnavailable(got.status())) {
      DICE_ASSIGN_OR_RETURN(const int code,
                            deps_.zygote.AwaitExit(
                                child_->pid(), absl::Now() + absl::Seconds(5)));
      if (code == 125) return absl::UnavailableError("the jail failed");
      return FromExit(stage, code);
    }
    if (stop_.stop_requested()) {
      child_->Kill();
      return absl::CancelledError("stopped");
    }
    if (child_->ResidentBytes() > options_.limits.memory_bytes) {
      child_->Kill();
      return Ending{MEMORY_LIMIT,
                    absl::StrCat("held more than ",
                                 options_.limits.memory_bytes >> 20, " MiB")};
    }
    if (absl::Now() >= deadline_) {
      child_->Kill();
      return Ending{TIMEOUT,
                    absl::StrCat("not finished after ",
                                 absl::FormatDuration(options_.timeout))};
    }
  }
}

CandidateRun::Step CandidateRun::Compile() {
  const auto tree = LoadTree(sources_.get(), kMaxSourceBytes);
  if (!tree.ok()) {
    return Ending{COMPILE_ERROR,
                  absl::StrCat("sources: ", tree.status().message())};
  }
  CompileRequest r;
  r.cpp_sources = Strings(*tree, "cpp_sources");
  r.cuda_sources = Strings(*tree, "cuda_sources");
  r.functions = Strings(*tree, "functions");
  r.cuda_flags = Strings(*tree, "cuda_flags");
  r.cpp_flags = Strings(*tree, "cpp_flags");
  const absl::Time begin = absl::Now();
  DICE_ASSIGN_OR_RETURN(const CompileResult result, deps_.compiler.Compile(r));
  const absl::Duration took = absl::Now() - begin;
  // Compile time is ours, with limits of its own.
  deadline_ += took;
  compile_seconds_ += absl::ToDoubleSeconds(took);
  tier_ = result.tier;
  if (result.kind == CompileResult::Kind::kOk) {
    compiled_ = true;
    const OwnedFd file(open(result.object_path.c_str(), O_RDONLY | O_CLOEXEC));
    // A memfd, since Landlock lets a jail open nothing of the host's mounts.
    DICE_ASSIGN_OR_RETURN(const OwnedFd object, CopyMemfd(file.get()),
                          "the compiled object is gone");
    DICE_RETURN_IF_ERROR(SealMemfd(object.get()));
    DICE_RETURN_IF_ERROR(
        child_->channel().Send({{"ok", true}}, {object.get()}));
    return std::nullopt;
  }
  compile_ending_ =
      Ending{result.kind == CompileResult::Kind::kUnsupported ? UNSUPPORTED
                                                              : COMPILE_ERROR,
             result.text.substr(0, kMaxMessage)};
  // A candidate may catch the failure; whatever it does next, it is decided.
  return compile_ending_;
}

CandidateRun::Step CandidateRun::Load(const std::string& candidate) {
  if (candidate.size() > static_cast<size_t>(kMaxSourceBytes) / 2) {
    return Ending{PARSE_ERROR, "the candidate is longer than 2 MiB"};
  }
  DICE_ASSIGN_OR_RETURN(child_, deps_.zygote.Fork("runner", options_.limits));
  deadline_ = absl::Now() + options_.timeout;
  DICE_ASSIGN_OR_RETURN(const OwnedFd source, StoreTree({{"v", candidate}}));
  DICE_ASSIGN_OR_RETURN(sources_, MakeMemfd());
  const absl::Status sent =
      child_->channel().Send({{"op", "start"},
                              {"seed", deps_.oracle.run_seed()},
                              {"cuda_names", options_.cuda_names}},
                             {source.get(), deps_.oracle.init_fd(),
                              deps_.oracle.state_fd(), sources_.get()});
  if (!sent.ok()) return absl::UnavailableError("the runner did not start");
  while (true) {
    ChannelMessage message;
    DICE_ASSIGN_OR_RETURN(const auto ending, Await(STAGE_LOAD, &message));
    if (ending.has_value()) return ending;
    const std::string op = message.body.value("op", "");
    if (op == "loaded") return std::nullopt;
    if (op != "compile") {
      return Ending{SANDBOX_VIOLATION, "spoke out of turn"};
    }
    DICE_ASSIGN_OR_RETURN(const auto failed, Compile());
    if (failed.has_value()) return failed;
  }
}

CandidateRun::Step CandidateRun::CheckSet(int set, double tolerance,
                                          Comparison* comparison) {
  DICE_ASSIGN_OR_RETURN(const int pristine, deps_.oracle.Inputs(set));
  DICE_ASSIGN_OR_RETURN(const OwnedFd inputs, CopyMemfd(pristine));
  ChannelMessage message;
  DICE_ASSIGN_OR_RETURN(const OwnedFd outputs, MakeMemfd());
  (void)child_->channel().Send({{"op", "run"}}, {inputs.get(), outputs.get()});
  DICE_ASSIGN_OR_RETURN(auto ending, Await(STAGE_CORRECTNESS, &message));
  // ModelNew may compile on its first call.
  while (!ending.has_value() && message.body.value("op", "") == "compile") {
    DICE_ASSIGN_OR_RETURN(ending, Compile());
    if (ending.has_value()) return ending;
    DICE_ASSIGN_OR_RETURN(ending, Await(STAGE_CORRECTNESS, &message));
  }
  if (ending.has_value()) return ending;
  if (message.body.value("op", "") != "outputs") {
    return Ending{SANDBOX_VIOLATION, "spoke out of turn"};
  }
  // Fixed before anyone looks at it: no late answers.
  if (!SealMemfd(outputs.get()).ok()) {
    return Ending{SANDBOX_VIOLATION, "kept its outputs open for writing"};
  }
  launches_ += message.body.value("launches", int64_t{0});
  DICE_ASSIGN_OR_RETURN(*comparison,
                        deps_.oracle.Compare(set, outputs.get(), tolerance));
  if (!comparison->ok) return Ending{WRONG_RESULT, comparison->text};
  DICE_ASSIGN_OR_RETURN(const bool same, SameBytes(pristine, inputs.get()));
  if (!same && !deps_.oracle.changes_inputs()) {
    return Ending{WRONG_RESULT, "changed its inputs; the reference does not"};
  }
  return std::nullopt;
}

}  // namespace dice
