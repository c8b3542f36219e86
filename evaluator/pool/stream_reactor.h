// A server-side stream with an outbox, the common part of both services.
#ifndef DICE_EVALUATOR_POOL_STREAM_REACTOR_H_
#define DICE_EVALUATOR_POOL_STREAM_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <utility>

#include "common/base/mutex.h"
#include "evaluator/pool/pool.h"

namespace dice {

// Reads one message at a time and hands it to OnMessage; writes what Send was
// given, in order. A peer that asks but does not read its answers is not read
// from while kOutboxLimit of them wait. Deletes itself when the stream is done.
//
// Locks: Send is called with the Pool's lock held and takes mu_; OnMessage is
// called without mu_ and may take the Pool's lock. gRPC's Start calls only
// enqueue, so mu_ is held over them.
template <typename In, typename Out>
class StreamReactor : public grpc::ServerBidiReactor<In, Out>,
                      public Sink<Out> {
 public:
  void Send(Out message) override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    if (finished_ || closing_) return;
    outbox_.push_back(std::move(message));
    WriteNext();
  }

  void Close() override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    closing_ = true;
    WriteNext();
  }

 protected:
  // Called once by the factory, when the object is whole.
  void Begin() { this->StartRead(&in_); }
  virtual void OnMessage(const In& message) = 0;
  virtual void OnReadsDone() = 0;  // the peer closed its side

 private:
  static constexpr size_t kOutboxLimit = 4096;

  void OnReadDone(bool ok) final {
    if (!ok) {
      OnReadsDone();
      return;
    }
    OnMessage(in_);
    MutexLock lock(mu_);
    if (finished_) return;
    if (outbox_.size() < kOutboxLimit) {
      this->StartRead(&in_);
    } else {
      read_paused_ = true;
    }
  }

  void OnWriteDone(bool ok) final {
    MutexLock lock(mu_);
    writing_ = false;
    outbox_.pop_front();
    if (!ok) {
      FinishOnce(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stream broke"));
      return;
    }
    if (read_paused_ && !finished_ && outbox_.size() < kOutboxLimit / 2) {
      read_paused_ = false;
      this->StartRead(&in_);
    }
    WriteNext();
  }

  void OnCancel() final {
    MutexLock lock(mu_);
    FinishOnce(grpc::Status::CANCELLED);
  }

  void OnDone() final { delete this; }

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    if (!outbox_.empty()) {
      writing_ = true;
      this->StartWrite(&outbox_.front());
    } else if (closing_) {
      FinishOnce(grpc::Status::OK);
    }
  }

  void FinishOnce(const grpc::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (std::exchange(finished_, true)) return;
    this->Finish(status);
  }

  In in_;  // owned by the read in progress
  Mutex mu_;
  std::deque<Out> outbox_ ABSL_GUARDED_BY(mu_);  // front: being written
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool read_paused_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_STREAM_REACTOR_H_
