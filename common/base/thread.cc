#include "common/base/thread.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "common/base/log.h"

namespace dice {

std::jthread StartThread(const std::string& name,
                         std::function<void(std::stop_token)> body) {
  return std::jthread([name, body = std::move(body)](std::stop_token stop) {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    try {
      body(stop);
    } catch (const std::exception& e) {
      DICE_LOG(kFatal) << "thread " << name << ": " << e.what();
    }
  });
}

}  // namespace dice
