// A bounded FIFO between threads.
#ifndef DICE_COMMON_BASE_BOUNDED_QUEUE_H_
#define DICE_COMMON_BASE_BOUNDED_QUEUE_H_

#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace dice {

// Thread-safe. After Close(), Push and TryPush refuse, and Pop hands out what
// is left, then nullopt.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Blocks while full. False: closed, `value` was dropped.
  bool Push(T value) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    while (items_.size() >= capacity_ && !closed_) changed_.Wait(mu_);
    return PushLocked(std::move(value));
  }

  // Never blocks. False: full or closed.
  bool TryPush(T value) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    if (items_.size() >= capacity_) return false;
    return PushLocked(std::move(value));
  }

  // Blocks until an item, Close() or `deadline`; nullopt in the last two.
  std::optional<T> Pop(absl::Time deadline = absl::InfiniteFuture(),
                       Clock& clock = Clock::Real()) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    while (items_.empty() && !closed_ && clock.Now() < deadline) {
      clock.Await(changed_, mu_, deadline);
    }
    if (items_.empty()) return std::nullopt;
    T value = std::move(items_.front());
    items_.pop_front();
    changed_.NotifyAll();
    return value;
  }

  void Close() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.NotifyAll();
  }

  size_t size() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    return items_.size();
  }
  bool closed() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    return closed_;
  }

 private:
  bool PushLocked(T value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (closed_) return false;
    items_.push_back(std::move(value));
    changed_.NotifyAll();
    return true;
  }

  const size_t capacity_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dice

#endif  // DICE_COMMON_BASE_BOUNDED_QUEUE_H_
