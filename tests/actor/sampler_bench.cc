// Seconds to sample a step's worth of responses with a small model, by hand:
//   sampler_bench [responses] [batch] [threads] [head_std] [max_tokens]
// A large head_std makes the random model sure of itself, as a trained one is.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "actor/sampler.h"
#include "common/base/clock.h"

namespace dice {
namespace {

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

ModelConfig Quickstart(double head_std) {
  ModelConfig c;
  c.vocab_size = 704;
  c.hidden_size = 128;
  c.intermediate_size = 384;
  c.num_layers = 4;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 32;
  c.rope_theta = 1e4;
  c.mask_token_id = 701;
  c.num_real_tokens = 702;
  c.eos_token_ids = {0};
  c.embedding_init_std = 1;
  c.head_init_std = head_std;
  return c;
}

void Run(DiffusionLm& lm, int responses, int64_t batch, int max_tokens) {
  Sampler sampler(lm, {.max_batch = batch});
  SamplingConfig config;
  config.set_strategy(DYNAMIC);
  config.set_temperature(1);
  config.set_confidence_threshold(0.9);
  config.set_steps_per_block(4);
  config.set_max_response_tokens(max_tokens);
  for (int i = 0; i < responses; ++i) {
    Sampler::Request r;
    r.id = i;
    for (int j = 0; j < 10 + i / 16 % 6; ++j)
      r.prompt.push_back(1 + j * 31 % 700);
    r.key = StreamKey(1).Derive({static_cast<uint64_t>(i)});
    r.config = config;
    sampler.Add(std::move(r));
  }
  const double cpu = CpuSeconds();
  const absl::Time start = Clock::Real().Now();
  int64_t forwards = 0, tokens = 0, steps = 0, finished = 0;
  while (sampler.pending() > 0) {
    ++forwards;
    sampler.Step([&](uint64_t, Response r) {
      ++finished;
      tokens += r.token_ids_size();
      steps += r.denoise_steps();
    });
  }
  std::printf(
      "%ld responses, %ld tokens, %ld denoise steps, %ld forwards: "
      "%.3f s wall, %.3f s CPU\n",
      finished, tokens, steps, forwards,
      absl::ToDoubleSeconds(Clock::Real().Now() - start), CpuSeconds() - cpu);
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  const auto arg = [&](int i, double otherwise) {
    return argc > i ? std::atof(argv[i]) : otherwise;
  };
  at::set_num_threads(static_cast<int>(arg(3, 1)));
  auto lm = *dice::DiffusionLm::Create(dice::Quickstart(arg(4, 0.02)), 1);
  for (int i = 0; i < 3; ++i) {
    dice::Run(*lm, static_cast<int>(arg(1, 256)),
              static_cast<int64_t>(arg(2, 256)), static_cast<int>(arg(5, 28)));
  }
}
