// `dice`: the command line of everything.
#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/tasks.h"
#include "common/base/log.h"

int main(int argc, char** argv) {
  CLI::App app{"dice trains diffusion language models to write CUDA kernels."};
  app.name("dice");
  app.require_subcommand(1);
  app.fallthrough(false);
  dice::SetLogRole("dice");
  dice::cli::Body body;
  dice::cli::AddCheck(app, body);
  dice::cli::AddReport(app, body);
  dice::cli::AddTasks(app, body);
  dice::cli::AddTrain(app, body);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // --help is a success; everything else is a usage error.
    return app.exit(e) == 0 ? dice::cli::kAccepted : dice::cli::kUsage;
  }
  return body ? body() : dice::cli::kUsage;
}
