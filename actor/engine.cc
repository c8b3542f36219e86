#include "actor/engine.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "actor/sampler.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"

namespace dice {
namespace {

class SamplerEngine : public Engine {
 public:
  SamplerEngine(const Options& options, Callbacks callbacks,
                std::unique_ptr<DiffusionLm> lm)
      : options_(options),
        callbacks_(std::move(callbacks)),
        vocab_size_(lm->config().vocab_size),
        lm_(std::move(lm)),
        sampler_(*lm_, {.max_batch = options.max_batch}) {
    thread_ = StartThread("sample", [this](std::stop_token stop) {
      at::set_num_threads(options_.threads);
      while (Prepare(stop)) RunStep();
    });
  }

  ~SamplerEngine() override {
    thread_.request_stop();
    MutexLock lock(mu_);
    changed_.NotifyAll();
  }

  int64_t vocab_size() const override { return vocab_size_; }

  absl::Status Submit(SamplingJob job) override {
    DICE_RETURN_IF_ERROR(ValidateSampling(job.sampling, /*for_rl=*/false));
    MutexLock lock(mu_);
    pending_ += static_cast<int64_t>(job.streams.size());
    jobs_.push_back(std::move(job));
    changed_.NotifyAll();
    return absl::OkStatus();
  }

  void Abandon(uint64_t group) override {
    MutexLock lock(mu_);
    abandoned_.insert(group);
    changed_.NotifyAll();
  }

  void SetWeights(WeightsIdentity identity, std::string safetensors) override {
    MutexLock lock(mu_);
    new_weights_ = {std::move(identity), std::move(safetensors)};
    changed_.NotifyAll();
  }

  void SetCurrent(bool current) override {
    MutexLock lock(mu_);
    current_ = current;
    changed_.NotifyAll();
  }

  int64_t pending() const override {
    MutexLock lock(mu_);
    return pending_;
  }

 private:
  struct Sample {
    uint64_t group;
    int index;
  };
  using Weights = std::pair<WeightsIdentity, std::string>;

  // Waits for something to do and does all but the denoise step: weights,
  // abandoned jobs, new jobs. False: stopped.
  bool Prepare(std::stop_token stop) {
    std::optional<Weights> weights;
    std::set<uint64_t> abandoned;
    {
      MutexLock lock(mu_);
      while (!stop.stop_requested() && !new_weights_ && abandoned_.empty() &&
             sampler_.pending() == 0 && NextJobLocked() == jobs_.end()) {
        changed_.Wait(mu_);
      }
      if (stop.stop_requested()) return false;
      weights = std::exchange(new_weights_, std::nullopt);
      abandoned = std::exchange(abandoned_, {});
    }
    if (weights) Use(*std::move(weights));
    if (!abandoned.empty()) Drop(abandoned);
    StartJobs();
    return true;
  }

  void Use(Weights weights) {
    const absl::Status status = lm_->LoadWeights(weights.second);
    if (!status.ok()) {
      callbacks_.on_failure(status);
      return;
    }
    sampler_.SetIdentity(weights.first);
    {
      MutexLock lock(mu_);
      held_version_ = weights.first.version();
    }
    callbacks_.on_progress();
  }

  void Drop(const std::set<uint64_t>& groups) {
    sampler_.Remove(
        [&](uint64_t id) { return groups.count(samples_.at(id).group) > 0; });
    int64_t dropped =
        static_cast<int64_t>(std::erase_if(samples_, [&](const auto& item) {
          return groups.count(item.second.group) > 0;
        }));
    MutexLock lock(mu_);
    std::erase_if(jobs_, [&](const SamplingJob& job) {
      if (groups.count(job.group) == 0) return false;
      dropped += static_cast<int64_t>(job.streams.size());
      return true;
    });
    pending_ -= dropped;
  }

  // The oldest job that may start now.
  std::deque<SamplingJob>::iterator NextJobLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!current_ || !held_version_) return jobs_.end();
    return std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
      return job.min_version <= *held_version_;
    });
  }

  void StartJobs() {
    while (static_cast<int64_t>(sampler_.pending()) < options_.max_batch) {
      SamplingJob job;
      {
        MutexLock lock(mu_);
        const auto it = NextJobLocked();
        if (it == jobs_.end()) return;
        job = std::move(*it);
        jobs_.erase(it);
      }
      for (size_t i = 0; i < job.streams.size(); ++i) {
        const uint64_t id = ++last_id_;
        samples_[id] = {job.group, static_cast<int>(i)};
        sampler_.Add({.id = id,
                      .prompt = job.prompt,
                      .forced = job.forced,
                      .key = job.streams[i],
                      .config = job.sampling});
      }
    }
  }

  void RunStep() {
    if (sampler_.pending() == 0) return;
    sampler_.Step([&](uint64_t id, Response response) {
      const auto node = samples_.extract(id);
      {
        MutexLock lock(mu_);
        --pending_;
      }
      callbacks_.on_response(node.mapped().group, node.mapped().index,
                             std::move(response));
    });
    callbacks_.on_progress();
  }

  const Options options_;
  const Callbacks callbacks_;
  const int64_t vocab_size_;
  // Of the sampling thread alone.
  const std::unique_ptr<DiffusionLm> lm_;
  Sampler sampler_;
  std::unordered_map<uint64_t, Sample> samples_;
  uint64_t last_id_ = 0;

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<SamplingJob> jobs_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> abandoned_ ABSL_GUARDED_BY(mu_);
  std::optional<Weights> new_weights_ ABSL_GUARDED_BY(mu_);
  std::optional<int64_t> held_version_ ABSL_GUARDED_BY(mu_);
  bool current_ ABSL_GUARDED_BY(mu_) = false;
  int64_t pending_ ABSL_GUARDED_BY(mu_) = 0;
  std::jthread thread_;  // last: stops before what it uses goes
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Options& options,
                                                       Callbacks callbacks) {
  DICE_ASSIGN_OR_RETURN(const ModelConfig config,
                        ModelConfig::FromJsonFile(options.model_config));
  DICE_ASSIGN_OR_RETURN(auto lm, DiffusionLm::Create(config, /*seed=*/0));
  return std::make_unique<SamplerEngine>(options, std::move(callbacks),
                                         std::move(lm));
}

}  // namespace dice
