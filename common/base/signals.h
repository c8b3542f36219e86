// Signals are handled by one thread. First SIGTERM or SIGINT: drain. Second:
// exit at once.
#ifndef DICE_COMMON_BASE_SIGNALS_H_
#define DICE_COMMON_BASE_SIGNALS_H_

#include <functional>
#include <memory>

namespace dice {

// Blocks SIGTERM and SIGINT in the calling thread and in every thread started
// later, so construct it first in main; SIGPIPE is ignored. `on_stop` runs once,
// on the signal thread; a second signal ends the process with code 130.
class SignalHandler {
 public:
  explicit SignalHandler(std::function<void()> on_stop);
  ~SignalHandler();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dice

#endif  // DICE_COMMON_BASE_SIGNALS_H_
