// dice-compile-box: runs compilers on text that nobody trusts. Started by the
// evaluator's worker; talks to it over an inherited socket.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "evaluator/compile/box_server.h"
#include "evaluator/compile/confine.h"

namespace {

constexpr char kUsage[] =
    "usage: dice-compile-box --fd N --jobs N --nvrtc FILE --readable PATH...\n"
    "Started by the evaluator; not for use by hand.\n";

}  // namespace

int main(int argc, char** argv) {
  dice::BoxServer::Options options;
  std::string nvrtc_path;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (has_value && !std::strcmp(argv[i], "--fd")) {
      options.fd = std::atoi(argv[++i]);
    } else if (has_value && !std::strcmp(argv[i], "--jobs")) {
      options.max_running = std::atoi(argv[++i]);
    } else if (has_value && !std::strcmp(argv[i], "--nvrtc")) {
      nvrtc_path = argv[++i];
    } else if (has_value && !std::strcmp(argv[i], "--readable")) {
      options.readable.push_back(argv[++i]);
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  dice::LeaveNetwork();
  dice::Nvrtc nvrtc;
  std::string error, log;
  if (!nvrtc.Load(nvrtc_path, &error)) {
    std::fprintf(stderr, "dice-compile-box: %s\n", error.c_str());
    return 3;
  }
  // Warm: the first compile maps the builtins library.
  if (nvrtc.Compile("__global__ void k() {}", {"-arch=compute_90", "-dlto"},
                    &log) != 0) {
    std::fprintf(stderr, "dice-compile-box: NVRTC does not work: %s\n",
                 log.c_str());
    return 3;
  }
  dice::BoxServer(options, &nvrtc).Run();
  return 0;
}
