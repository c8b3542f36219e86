#include "common/base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/thread.h"

namespace dice {

struct SignalHandler::Impl {
  std::jthread thread;
};

SignalHandler::SignalHandler(std::function<void()> on_stop)
    : impl_(std::make_unique<Impl>()) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGTERM, SIGINT, SIGUSR2}) sigaddset(&set, s);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  impl_->thread =
      StartThread("signals", [set, on_stop = std::move(on_stop)](
                                 std::stop_token stop) {
        bool stopping = false;
        while (true) {
          int s = 0;
          sigwait(&set, &s);
          if (stop.stop_requested()) return;
          if (s == SIGUSR2) continue;
          if (stopping) _exit(130);
          stopping = true;
          DICE_LOG(kInfo) << "signal " << s
                          << ": draining; a second one exits at once";
          on_stop();
        }
      });
}

SignalHandler::~SignalHandler() {
  impl_->thread.request_stop();
  pthread_kill(impl_->thread.native_handle(), SIGUSR2);
}

}  // namespace dice
