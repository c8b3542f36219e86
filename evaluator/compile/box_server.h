// The loop of dice-compile-box: one thread, one forked child per job. A fork
// from here is cheap and safe, since nothing else runs; the process that wants
// something compiled has threads and gRPC and must not fork.
#ifndef DICE_EVALUATOR_COMPILE_BOX_SERVER_H_
#define DICE_EVALUATOR_COMPILE_BOX_SERVER_H_

#include <deque>
#include <string>
#include <vector>

#include "evaluator/compile/box_protocol.h"
#include "evaluator/compile/nvrtc.h"

namespace dice {

class BoxServer {
 public:
  struct Options {
    int fd = 3;  // the socket to the compiler
    int max_running = 2;
    std::vector<std::string> readable;  // files and folders a job may read
  };
  BoxServer(const Options& options, Nvrtc* nvrtc)
      : options_(options), nvrtc_(nvrtc) {}

  // Serves until the other side closes; then kills what still runs.
  void Run();

 private:
  struct Running {
    BoxJob job;
    int pid = -1;
    int pipe = -1;        // stdout and stderr of the child; -1 at its end
    double deadline = 0;  // monotonic seconds
    bool killed = false;
    BoxResult result;
  };

  void Start(BoxJob job);
  [[noreturn]] void Child(const BoxJob& job, int output);
  void ReadLog(Running* r);
  void Reap();
  void Send(const BoxResult& result);
  bool ReadJobs();
  int PollTimeoutMs() const;

  const Options options_;
  Nvrtc* const nvrtc_;  // not owned
  std::string buffer_;
  std::deque<BoxJob> waiting_;
  std::vector<Running> running_;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_BOX_SERVER_H_
