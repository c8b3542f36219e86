// Named, owned, joined threads with a stop token.
#ifndef DICE_COMMON_BASE_THREAD_H_
#define DICE_COMMON_BASE_THREAD_H_

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace dice {

// Runs `body` on a thread called `name` (15 characters are visible to the
// system). The returned jthread asks it to stop and joins it when destroyed.
// An exception that leaves `body` is a bug: it is logged and aborts.
std::jthread StartThread(const std::string& name,
                         std::function<void(std::stop_token)> body);

}  // namespace dice

#endif  // DICE_COMMON_BASE_THREAD_H_
