// The command line of dice-learner.
#ifndef DICE_LEARNER_FLAGS_H_
#define DICE_LEARNER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "learner/server.h"
#include "proto/config.pb.h"

namespace dice {

struct LearnerFlags {
  std::string config;
  std::vector<std::string> sets;
  std::string run_dir;
  bool resume = false;
  bool print_config = false;
  bool dry_run = false;
  LearnerServerOptions server;
};

inline void AddFlags(CLI::App& app, LearnerFlags* f) {
  app.add_option("--config", f->config, "Configuration (textproto)")
      ->required();
  app.add_option("--set", f->sets, "a.b=c: override a field; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--run-dir", f->run_dir, "Where the run is kept; runs/NAME");
  app.add_flag("--resume", f->resume,
               "Go on from the last complete checkpoint of the run folder");
  app.add_flag("--print-config", f->print_config,
               "Print the effective configuration and exit");
  app.add_flag("--dry-run", f->dry_run, "Check the configuration and exit");
  LearnerServerOptions& s = f->server;
  app.add_option("--host", s.host, "Address to serve on")->capture_default_str();
  app.add_option("--port", s.port, "Port; 0: any")->capture_default_str();
  app.add_option("--ready-file", s.ready_file,
                 "Written with the address when rank 0 serves");
  app.add_option("--metrics-host", s.metrics_host)->capture_default_str();
  app.add_option("--metrics-port", s.metrics_port, "0: any, -1: none")
      ->capture_default_str();
  app.add_option("--token-file", s.token_file, "Bearer token that calls need");
  app.add_option("--tls-cert", s.tls_cert, "PEM; turns TLS on");
  app.add_option("--tls-key", s.tls_key, "PEM");
  app.add_option("--tls-ca", s.tls_ca, "PEM; asks clients for certificates");
  app.add_flag("--allow-insecure", s.allow_insecure,
               "Allow plaintext beyond loopback");
}

inline std::string RunDir(const LearnerFlags& f, const Config& config) {
  return f.run_dir.empty() ? JoinPath("runs", config.name()) : f.run_dir;
}

}  // namespace dice

#endif  // DICE_LEARNER_FLAGS_H_
