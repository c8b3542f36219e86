#include "cli/train_plan.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/rpc/ready_file.h"

namespace dice::cli {
namespace fs = std::filesystem;
namespace {

using Env = std::vector<std::pair<std::string, std::string>>;

// Libraries that start threads of their own read these, not our flags.
Env ThreadEnv(int threads) {
  const std::string n = absl::StrCat(threads);
  return {{"OMP_NUM_THREADS", n}, {"MKL_NUM_THREADS", n}};
}

ChildSpec MakeChild(const RunPlaces& places, const std::string& name,
                    std::vector<std::string> argv, Env env = {}) {
  return {.name = name,
          .argv = std::move(argv),
          .env = std::move(env),
          .log_path = places.Log(name),
          .ready_file = places.Ready(name)};
}

// Keeps the port of a server over its restarts: the first ready file has it.
std::string StickyPort(const std::string& ready, const std::string& port,
                       int attempt, std::string* last) {
  if (attempt == 0) *last = port;
  const auto info = ReadReadyFile(ready);
  if (attempt > 0 && info.ok()) *last = PortOf(info->address);
  return *last;
}

}  // namespace

std::string RunPlaces::Binary(const std::string& folder,
                              const std::string& name) const {
  std::error_code ec;
  const fs::path built = fs::path(bin_dir) / ".." / folder / name;
  return (fs::exists(built, ec) ? built : fs::path(bin_dir) / name)
      .lexically_normal();
}

std::string RunPlaces::Log(const std::string& child) const {
  return JoinPath(run_dir, absl::StrCat("logs/", child, ".log"));
}

std::string RunPlaces::Ready(const std::string& child) const {
  return JoinPath(run_dir, absl::StrCat("ready/", child));
}

GroupSpec PoolGroup(const Config& config, const RunPlaces& places,
                    const std::string& port) {
  const std::string cache = config.judge().cache_path().empty()
                                ? JoinPath(places.run_dir, "pool.sqlite")
                                : config.judge().cache_path();
  const auto last = std::make_shared<std::string>();
  const auto make = [=, queue = config.judge().queue_limit()](int attempt) {
    const std::string ready = places.Ready("pool");
    return std::vector{MakeChild(
        places, "pool",
        {places.Binary("evaluator", "dice-evaluator"), "--mode", "pool",
         "--port", StickyPort(ready, port, attempt, last.get()), "--ready-file",
         ready, "--cache", cache, "--queue-limit", absl::StrCat(queue),
         "--client-limit", absl::StrCat(queue), "--drain-seconds", "5"})};
  };
  return {.name = "pool", .make = make};
}

GroupSpec WorkerGroup(const Config& config, const RunPlaces& places, int index,
                      const std::string& pool_address) {
  const std::string name = absl::StrCat("worker-", index);
  const auto make = [=, judge = config.judge()](int) {
    return std::vector{MakeChild(
        places, name,
        {places.Binary("evaluator", "dice-evaluator"), "--mode", "worker",
         "--name", name, "--pool", pool_address, "--slots",
         absl::StrCat(judge.worker_slots()), "--device", judge.device(),
         "--isolation", judge.isolation(), "--ready-file", places.Ready(name),
         "--drain-seconds", "10"})};
  };
  return {.name = name, .make = make};
}

GroupSpec ActorGroup(const Config& config, const RunPlaces& places, int index,
                     const std::string& learner_address,
                     const std::string& pool_address) {
  const std::string name = absl::StrCat("actor-", index);
  const ModelSpec& model = config.model();
  const std::string tokenizer = model.tokenizer_dir().empty()
                                    ? model.checkpoint_dir()
                                    : model.tokenizer_dir();
  const std::string model_config =
      model.config_json().empty()
          ? JoinPath(model.checkpoint_dir(), "config.json")
          : model.config_json();
  const auto make = [=, topology = config.topology()](int) {
    ChildSpec child =
        MakeChild(places, name,
                  {places.Binary("actor", "dice-actor"), "--learner",
                   learner_address, "--evaluator", pool_address, "--name", name,
                   "--threads", absl::StrCat(topology.actor_threads()),
                   "--batch", absl::StrCat(topology.actor_batch()),
                   "--tokenizer", tokenizer, "--model-config", model_config},
                  ThreadEnv(topology.actor_threads()));
    child.ready_file.clear();
    return std::vector{child};
  };
  return {
      .name = name, .make = make, .on_success = GroupSpec::OnSuccess::kRetire};
}

GroupSpec LearnerGroup(const Config& config, const RunPlaces& places,
                       const std::string& port, bool resume) {
  const auto last = std::make_shared<std::string>();
  const auto make = [=, topology = config.topology()](int attempt) {
    const std::string rendezvous = absl::StrCat(FreePort());
    const std::string world = absl::StrCat(topology.learner_ranks());
    std::vector<ChildSpec> ranks;
    for (int r = 0; r < topology.learner_ranks(); ++r) {
      const std::string name = absl::StrCat("learner-", r);
      const std::string ready = places.Ready(name);
      ChildSpec child =
          MakeChild(places, name,
                    {places.Binary("learner", "dice-learner"), "--config",
                     places.config, "--run-dir", places.run_dir},
                    ThreadEnv(topology.learner_threads()));
      if (r == 0) {
        child.argv.insert(
            child.argv.end(),
            {"--port", StickyPort(ready, port, attempt, last.get()),
             "--ready-file", ready});
        // Progress lines; the supervisor shows them in the terminal.
        child.stdout_path = JoinPath(places.run_dir, "logs/progress.log");
      } else {
        child.ready_file.clear();  // only rank 0 serves
      }
      if ((resume || attempt > 0) && HasCheckpoint(places.run_dir)) {
        child.argv.push_back("--resume");
      }
      const Env env = {
          {"RANK", absl::StrCat(r)},    {"LOCAL_RANK", absl::StrCat(r)},
          {"WORLD_SIZE", world},        {"LOCAL_WORLD_SIZE", world},
          {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", rendezvous}};
      child.env.insert(child.env.end(), env.begin(), env.end());
      ranks.push_back(std::move(child));
    }
    return ranks;
  };
  return {.name = "learner",
          .make = make,
          .on_success = GroupSpec::OnSuccess::kFinishRun,
          .max_failures = 3};
}

bool HasCheckpoint(const std::string& run_dir) {
  std::error_code ec;
  const fs::directory_iterator entries(JoinPath(run_dir, "checkpoints"), ec);
  return !ec && entries != fs::directory_iterator();
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

std::string PortOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? "0" : address.substr(colon + 1);
}

}  // namespace dice::cli
