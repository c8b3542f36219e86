#include "learner/sft_data.h"

#include <numeric>
#include <utility>

#include "common/tasks/tasks.h"

namespace dice {
namespace {

constexpr uint64_t kOrderStream = 1;
constexpr uint64_t kSampleStream = 2;
constexpr uint64_t kRateStream = 3;

// A seeded permutation of [0, n).
std::vector<int64_t> Permutation(int64_t n, StreamKey key) {
  std::vector<int64_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  Rng rng(key);
  for (int64_t i = n; i > 1; --i) std::swap(out[i - 1], out[rng.Below(i)]);
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SftData>> SftData::Create(
    const Options& options, const std::vector<Task>& tasks,
    const Tokenizer& tokenizer) {
  std::unique_ptr<SftData> out(new SftData(options));
  for (const Task& task : tasks) {
    if (task.solutions().empty() || !task.quarantine_reason().empty()) continue;
    Solutions all;
    for (const Solution& s : task.solutions()) {
      const int index = static_cast<int>(all.whole.size());
      (s.quality() == "good" ? all.good : all.other).push_back(index);
      all.whole.push_back(out->Tokenize(task, s, true, tokenizer));
      all.cut.push_back(out->Tokenize(task, s, false, tokenizer));
    }
    out->num_solutions_ += task.solutions_size();
    out->tasks_.push_back(std::move(all));
  }
  if (out->tasks_.empty()) {
    return absl::InvalidArgumentError(
        "an sft stage needs tasks with solutions; there is none");
  }
  return out;
}

SftData::Sample SftData::Tokenize(const Task& task, const Solution& solution,
                                  bool whole,
                                  const Tokenizer& tokenizer) const {
  const SftSample text = MakeSftSample(task, solution, whole);
  Sample out{tokenizer.Encode(text.prompt), tokenizer.Encode(text.forced)};
  out.known = static_cast<int64_t>(out.response.size());
  const auto trained = tokenizer.Encode(text.trained);
  out.response.insert(out.response.end(), trained.begin(), trained.end());
  // The end, then the rest of its block as the sampler will see it.
  out.response.push_back(options_.end_id);
  while ((out.prompt.size() + out.response.size()) % options_.block_size != 0) {
    out.response.push_back(options_.pad_id);
  }
  return out;
}

const SftData::Sample& SftData::Choose(const Solutions& s, Rng& rng) const {
  const double good = options_.stage.good_fraction();
  int index = 0;
  if (good > 0 && !s.good.empty() && !s.other.empty()) {
    const std::vector<int>& kind = rng.Uniform() < good ? s.good : s.other;
    index = kind[rng.Below(kind.size())];
  } else {
    index = static_cast<int>(rng.Below(s.whole.size()));
  }
  const bool whole = rng.Uniform() < options_.stage.whole_fraction();
  return whole ? s.whole[index] : s.cut[index];
}

void SftData::Mask(const Sample& sample, double t, Rng& rng,
                   TrainBatchSequence* out) const {
  const SftStage& stage = options_.stage;
  const int64_t n = static_cast<int64_t>(sample.response.size());
  const int64_t prompt = static_cast<int64_t>(sample.prompt.size());
  out->mutable_tokens()->Add(sample.response.begin(), sample.response.end());
  out->mutable_steps()->Resize(static_cast<int>(n), 0);
  out->mutable_weights()->Resize(static_cast<int>(n), 0);
  out->set_num_trained(static_cast<int32_t>(n));
  int64_t block = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t of = (prompt + i) / options_.block_size;
    if (stage.rate_per_block() && of != block) {
      t = stage.mask_rate_min() +
          (stage.mask_rate_max() - stage.mask_rate_min()) * rng.Uniform();
    }
    block = of;
    if (i < sample.known) continue;
    const double p = (1 - 1e-3) * t + 1e-3;
    if (rng.Uniform() >= p) continue;
    out->set_steps(static_cast<int>(i), 1);
    out->set_weights(static_cast<int>(i), static_cast<float>(1 / p));
  }
}

TrainBatch SftData::MakeBatch(int64_t step) const {
  const SftStage& stage = options_.stage;
  const int64_t size = stage.batch_size();
  const int64_t tasks = static_cast<int64_t>(tasks_.size());
  TrainBatch batch;
  batch.set_kind(TrainBatch::SFT);
  int64_t epoch = -1;
  std::vector<int64_t> order;
  // Stratum of each sample's rate.
  const auto strata = Permutation(
      size, options_.key.Derive({kRateStream, static_cast<uint64_t>(step)}));
  double labels = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t n = step * size + i;
    if (n / tasks != epoch) {
      epoch = n / tasks;
      order = Permutation(tasks, options_.key.Derive(
                                     {kOrderStream,
                                      static_cast<uint64_t>(epoch)}));
    }
    Rng rng(options_.key.Derive({kSampleStream, static_cast<uint64_t>(n)}));
    const Sample& sample = Choose(tasks_[order[n % tasks]], rng);
    const double u = (static_cast<double>(strata[i]) + rng.Uniform()) / size;
    const double t = stage.mask_rate_min() +
                     (stage.mask_rate_max() - stage.mask_rate_min()) * u;
    TrainBatchGroup* group = batch.add_groups();
    group->mutable_prompt()->Add(sample.prompt.begin(), sample.prompt.end());
    Mask(sample, t, rng, group->add_responses());
    labels += static_cast<double>(sample.response.size()) -
              static_cast<double>(sample.known);
  }
  batch.set_label_tokens(labels);
  return batch;
}

}  // namespace dice
