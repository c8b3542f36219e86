#include "evaluator/compile/emulated_compiler.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "evaluator/compile/object_cache.h"
#include "evaluator/compile/steps.h"
#include "evaluator/compile/toolchain.h"

namespace dice {
namespace {

constexpr size_t kMaxBatch = 16;
// How long a lone request waits for company. Small against the 60 ms of a run.
constexpr std::chrono::milliseconds kLinger(3);

class EmulatedCompiler : public Compiler {
 public:
  EmulatedCompiler(std::unique_ptr<Toolchain> toolchain,
                   const std::string& cache_dir, int workers)
      : toolchain_(std::move(toolchain)),
        cache_(JoinPath(cache_dir, "objects")),
        steps_(toolchain_.get()) {
    for (int i = 0; i < workers; ++i)
      threads_.push_back(StartThread(absl::StrCat("compile-", i),
                                     [this](std::stop_token) { WorkLoop(); }));
  }

  ~EmulatedCompiler() override {
    {
      MutexLock lock(mu_);
      closed_ = true;
      changed_.NotifyAll();
    }
    threads_.clear();
  }

  absl::StatusOr<CompileResult> Compile(
      const CompileRequest& request) override {
    const std::string key = Key(request);
    if (auto hit = cache_.Find(key)) return *std::move(hit);
    std::shared_ptr<Pending> pending;
    bool mine = false;
    {
      MutexLock lock(mu_);
      auto& slot = in_flight_[key];
      mine = slot == nullptr;
      if (mine) slot = std::make_shared<Pending>();
      pending = slot;
    }
    if (mine) Submit(key, request, pending);
    MutexLock lock(mu_);
    while (!pending->done) changed_.Wait(mu_);
    if (!pending->work.status.ok()) return pending->work.status;
    CompileResult result = pending->work.result;
    result.cached = !mine;
    return result;
  }

 private:
  struct Pending {
    std::string key;
    Work work;
    bool done = false;
  };

  std::string Key(const CompileRequest& r) const {
    // Lengths are hashed too, so that lists cannot be confused.
    std::string fields;
    const auto add = [&](const std::vector<std::string>& list) {
      absl::StrAppend(&fields, list.size(), ":");
      for (const std::string& s : list)
        absl::StrAppend(&fields, s.size(), ":", s);
    };
    add(r.cpp_sources);
    add(r.cuda_sources);
    add(r.functions);
    add(r.cuda_flags);
    add(r.cpp_flags);
    return Sha256HexOf(
        {toolchain_->id(), fields, r.address_sanitizer ? "asan" : ""});
  }

  // Decides what the text alone decides; queues the rest.
  void Submit(const std::string& key, const CompileRequest& request,
              const std::shared_ptr<Pending>& p) {
    p->key = key;
    p->work.candidate = MakeCandidate(request);
    const Candidate& c = p->work.candidate;
    CompileResult& r = p->work.result;
    r.tier = "text";
    const std::string& refusal =
        c.cpp.refusal.empty() ? c.cuda.refusal : c.cpp.refusal;
    const std::string& unsupported =
        c.cpp.unsupported.empty() ? c.cuda.unsupported : c.cpp.unsupported;
    if (!refusal.empty()) {
      r.kind = CompileResult::Kind::kError;
      r.text = refusal;
    } else if (!unsupported.empty()) {
      r.kind = CompileResult::Kind::kUnsupported;
      r.text = unsupported;
    } else {
      MutexLock lock(mu_);
      (c.CanShare() ? shareable_ : alone_).push_back(p);
      changed_.NotifyAll();
      return;
    }
    Finish(p);
  }

  void Finish(const std::shared_ptr<Pending>& p) {
    if (p->work.status.ok()) {
      if (p->work.result.kind == CompileResult::Kind::kOk)
        p->work.result.object_path = cache_.ObjectPath(p->key);
      p->work.status = cache_.Store(p->key, p->work.result, p->work.object);
    }
    p->work.object.clear();
    MutexLock lock(mu_);
    p->done = true;
    in_flight_.erase(p->key);
    changed_.NotifyAll();
  }

  // A worker: takes a batch, or one that must be alone, until closed.
  void WorkLoop() {
    for (;;) {
      std::vector<std::shared_ptr<Pending>> batch = Take();
      if (batch.empty()) return;
      if (batch.size() == 1) {
        steps_.Alone(&batch[0]->work);
      } else {
        std::vector<Work*> works;
        for (const auto& p : batch) works.push_back(&p->work);
        steps_.Shared(std::move(works));
      }
      for (const auto& p : batch) Finish(p);
    }
  }

  // Empty once closed and drained. Another worker may take what this one
  // waited for: then it waits again.
  std::vector<std::shared_ptr<Pending>> Take() {
    MutexLock lock(mu_);
    std::vector<std::shared_ptr<Pending>> batch;
    while (batch.empty()) {
      while (shareable_.empty() && alone_.empty()) {
        if (closed_) return {};
        changed_.Wait(mu_);
      }
      if (!alone_.empty()) {
        batch.push_back(std::move(alone_.front()));
        alone_.pop_front();
        break;
      }
      const auto until = std::chrono::steady_clock::now() + kLinger;
      while (shareable_.size() < kMaxBatch && !closed_ &&
             std::chrono::steady_clock::now() < until)
        changed_.WaitUntil(mu_, until);
      while (batch.size() < kMaxBatch && !shareable_.empty()) {
        batch.push_back(std::move(shareable_.front()));
        shareable_.pop_front();
      }
    }
    return batch;
  }

  const std::unique_ptr<Toolchain> toolchain_;
  const ObjectCache cache_;
  CompileSteps steps_;
  Mutex mu_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<Pending>> shareable_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Pending>> alone_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Pending>> in_flight_
      ABSL_GUARDED_BY(mu_);
  std::vector<std::jthread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> CreateEmulatedCompiler(
    const EmulatedCompilerOptions& options) {
  const int jobs = std::max(1, options.processes);
  DICE_ASSIGN_OR_RETURN(auto toolchain,
                        Toolchain::Create({.cache_dir = options.cache_dir,
                                           .harness_dir = options.harness_dir,
                                           .python = options.python,
                                           .jobs = jobs}));
  return std::make_unique<EmulatedCompiler>(std::move(toolchain),
                                            options.cache_dir, jobs);
}

}  // namespace dice
