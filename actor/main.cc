// dice-actor: samples for a learner, judged by a pool. Start order does not
// matter, and any number of them may come and go.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <stop_token>

#include "actor/actor.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status_macros.h"
#include "common/metrics/http_server.h"

namespace dice {
namespace {

struct Flags {
  std::string learner, evaluator, name, tokenizer, model_config;
  int threads = 1, metrics_port = -1, drain_s = 20;
  int64_t batch = 256;
  bool allow_insecure = false;
  LogLevel log_level = LogLevel::kInfo;
};

absl::Status Run(const Flags& flags, std::stop_token stop) {
  Clock& clock = Clock::Real();
  MetricRegistry registry;
  ActorMetrics metrics(registry);
  Health health(clock);
  std::unique_ptr<MetricsServer> http;
  if (flags.metrics_port >= 0) {
    DICE_ASSIGN_OR_RETURN(http,
                          MetricsServer::Start(registry, health, "127.0.0.1",
                                               flags.metrics_port));
    DICE_LOG(kInfo) << "metrics on " << http->address();
  }
  DICE_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(flags.tokenizer));
  DICE_ASSIGN_OR_RETURN(
      const auto learner,
      ConnectLearner(flags.learner, flags.name, flags.allow_insecure));
  DICE_ASSIGN_OR_RETURN(
      const auto evaluator,
      ConnectEvaluator(flags.evaluator,
                       {.allow_insecure = flags.allow_insecure}, clock));
  Actor actor(
      {.low_water = 2 * flags.batch, .drain = absl::Seconds(flags.drain_s)},
      {.learner = *learner,
       .evaluator = *evaluator,
       .tokenizer = *tokenizer,
       .metrics = metrics,
       .clock = clock});
  DICE_ASSIGN_OR_RETURN(auto engine,
                        Engine::Create({.model_config = flags.model_config,
                                        .max_batch = flags.batch,
                                        .threads = flags.threads},
                                       actor.engine_callbacks()));
  const std::stop_callback on_stop(stop, [&] { actor.Stop(); });
  health.SetReady(true);
  return actor.Run(std::move(engine));
}

}  // namespace
}  // namespace dice

int main(int argc, char** argv) {
  dice::Flags flags;
  CLI::App app("dice-actor: sample for a learner, judged by a pool");
  app.add_option("--learner", flags.learner, "host:port of rank 0")->required();
  app.add_option("--evaluator", flags.evaluator,
                 "host:port of the pool's front")
      ->required();
  app.add_option("--tokenizer", flags.tokenizer, "folder of the tokenizer")
      ->required();
  app.add_option("--model-config", flags.model_config, "HF config.json")
      ->required();
  app.add_option("--name", flags.name, "unique in the run")->required();
  app.add_option("--threads", flags.threads, "of the sampler")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", flags.batch, "sequences denoised together")
      ->check(CLI::PositiveNumber);
  app.add_option("--metrics-port", flags.metrics_port,
                 "/metrics on 127.0.0.1; 0 = any, -1 = none");
  app.add_option("--drain-s", flags.drain_s, "seconds to finish after SIGTERM");
  app.add_flag("--allow-insecure", flags.allow_insecure,
               "plaintext to other machines");
  app.add_option("--log-level", flags.log_level, "debug|info|warning|error")
      ->transform(CLI::CheckedTransformer(std::map<std::string, dice::LogLevel>{
          {"debug", dice::LogLevel::kDebug},
          {"info", dice::LogLevel::kInfo},
          {"warning", dice::LogLevel::kWarning},
          {"error", dice::LogLevel::kError}}));
  CLI11_PARSE(app, argc, argv);
  // Activations come and go with each step: do not give their pages back.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  dice::SetLogRole(flags.name);
  dice::SetMinLogLevel(flags.log_level);
  std::stop_source stopping;
  const dice::SignalHandler signals([&] { stopping.request_stop(); });
  const absl::Status status = dice::Run(flags, stopping.get_token());
  if (status.ok()) return 0;
  DICE_LOG(kError) << status;
  const bool usage =
      absl::IsNotFound(status) || absl::IsInvalidArgument(status);
  return usage ? 2 : 1;
}
