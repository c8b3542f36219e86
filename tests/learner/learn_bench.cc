// By hand: seconds of a learning step of the quickstart's size. One process a
// rank, in torchrun's environment:
//
//   MASTER_PORT=29600 WORLD_SIZE=2 RANK=1 learn_bench & RANK=0 ... learn_bench
//
// Arguments: distinct responses of the 16 in a group (16), steps (5).
#include <cstdio>
#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "learner/trainer.h"
#include "tests/learner/tiny_model.h"

namespace dice {
namespace {

ModelConfig QuickstartModel() {
  ModelConfig c = TinyConfig();
  c.vocab_size = 704;
  c.num_real_tokens = 700;
  c.mask_token_id = 700;
  c.hidden_size = 128;
  c.intermediate_size = 384;
  c.num_layers = 4;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 32;
  return c;
}

// 28 tokens, about 2.2 denoise steps a block.
TrainBatchSequence MakeResponse(Rng& rng, TrainBatch::Kind kind, int forced) {
  TrainBatchSequence s;
  for (int i = 0; i < 30; ++i) {
    s.add_tokens(static_cast<int32_t>(rng.Below(700)));
    const int step = kind == TrainBatch::SFT ? static_cast<int>(rng.Below(2))
                                             : 1 + i / 4 * 4 +
                                                   static_cast<int>(rng.Below(3));
    s.add_steps(i < forced ? -1 : step);
    s.add_behavior_logprobs(-2);
    s.add_weights(1.5);
  }
  s.set_num_trained(28);
  s.set_advantage(static_cast<float>(rng.Normal()));
  return s;
}

TrainBatch MakeBatch(TrainBatch::Kind kind, int groups, int responses,
                     int distinct, uint64_t seed) {
  Rng rng(seed);
  TrainBatch b;
  b.set_kind(kind);
  b.set_lr(1e-4);
  b.set_label_tokens(groups * responses * 28);
  b.mutable_loss()->set_clip_low(0.2);
  b.mutable_loss()->set_clip_high(0.2);
  b.mutable_loss()->set_importance_cap(2);
  for (int g = 0; g < groups; ++g) {
    TrainBatchGroup* group = b.add_groups();
    for (int i = 0; i < 10; ++i) {
      group->add_prompt(static_cast<int32_t>(rng.Below(700)));
    }
    for (int r = 0; r < responses; ++r) {
      *group->add_responses() = r < distinct
                                    ? MakeResponse(rng, kind, 4)
                                    : group->responses(r % distinct);
    }
  }
  return b;
}

void Time(const char* what, Trainer& trainer, const TrainBatch& batch,
          int steps) {
  DICE_CHECK_OK(trainer.Run(batch).status());
  const absl::Time begin = Clock::Real().Now();
  for (int i = 0; i < steps; ++i) DICE_CHECK_OK(trainer.Run(batch).status());
  std::printf("%s: %.3f s a step\n", what,
              absl::ToDoubleSeconds(Clock::Real().Now() - begin) / steps);
}

void Bench(int distinct, int steps) {
  at::set_num_threads(1);
  const RankInfo info = *DiscoverRank();
  auto group = *CreateProcessGroup(info, {.run_key = "bench"});
  auto lm = *DiffusionLm::Create(QuickstartModel(), 1);
  Trainer trainer(*lm, *group);
  if (info.rank > 0) {
    DICE_CHECK_OK(trainer.Serve());
    return;
  }
  TrainBatch begin;
  begin.set_kind(TrainBatch::BEGIN_STAGE);
  DICE_CHECK_OK(trainer.Run(begin).status());
  const TrainBatch sft = MakeBatch(TrainBatch::SFT, 32, 1, 1, 1);
  Time("SFT, 32 samples", trainer, sft, 4 * steps);
  const TrainBatch rl = MakeBatch(TrainBatch::POLICY, 16, 16, distinct, 2);
  int64_t rows = 0;
  for (const auto& g : rl.groups()) {
    TrainGroup t;
    t.prompt.assign(g.prompt().begin(), g.prompt().end());
    for (const auto& s : g.responses()) {
      t.responses.push_back({{s.tokens().begin(), s.tokens().end()},
                             {s.steps().begin(), s.steps().end()},
                             s.num_trained()});
    }
    for (const int64_t c : RowCosts(t, lm->config())) rows += c;
  }
  std::printf("RL: %d of 16 distinct, %ld rows\n", distinct,
              static_cast<long>(rows));
  Time("RL, 16 x 16 responses", trainer, rl, steps);
  TrainBatch stop;
  stop.set_kind(TrainBatch::STOP);
  DICE_CHECK_OK(trainer.Run(stop).status());
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  dice::Bench(argc > 1 ? std::atoi(argv[1]) : 16,
              argc > 2 ? std::atoi(argv[2]) : 5);
}
