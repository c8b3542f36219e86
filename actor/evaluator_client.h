// Sends candidates to the evaluator pool over one bidirectional stream and
// calls back with what became of each. Survives a pool that is absent, restarts
// or refuses for a while: whatever is undecided is submitted again, which is
// harmless, because evaluations are keyed by content.
#ifndef DICE_ACTOR_EVALUATOR_CLIENT_H_
#define DICE_ACTOR_EVALUATOR_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/evaluator_service.pb.h"

namespace dice {

// Thread-safe.
class EvaluatorClient {
 public:
  struct Request {
    std::string candidate;  // Python source
    std::string task_digest;
    std::shared_ptr<const Task> task;  // sent only when the pool asks for it
    Profile profile;
  };
  // Exactly one of verdict and infra_error is set. An infra_error is our
  // failure and says nothing about the candidate.
  struct Answer {
    std::optional<Verdict> verdict;
    std::string infra_error;
    absl::Time sent_at;  // first time
    absl::Time answered_at;
  };
  using Done = std::function<void(Answer)>;

  struct Options {
    // A retryable infra_error is submitted again this many times in all, with
    // doubling waits in between.
    int max_tries = 8;
    absl::Duration first_wait = absl::Milliseconds(200);
    absl::Duration longest_wait = absl::Seconds(5);
    bool allow_insecure = false;
  };

  virtual ~EvaluatorClient() = default;
  // Never blocks. `done` runs once, on a thread of this object, unless Forget
  // comes first. Returns the id for Forget. Calls back with no lock held.
  virtual uint64_t Evaluate(Request request, Done done) = 0;
  // The answer is not wanted any more. Unknown ids are ignored. `done` may
  // still be running on another thread.
  virtual void Forget(uint64_t id) = 0;
  // Undecided evaluations.
  virtual size_t pending() const = 0;
  // Whether the pool is there now. While it is, it owes us every answer.
  virtual bool connected() const = 0;
  // Ends the stream. When it returns, no `done` runs any more; undecided
  // evaluations are forgotten. Not to be called from a `done`.
  virtual void Shutdown() = 0;
};

// INVALID_ARGUMENT: plaintext to another machine that options do not permit.
// The destructor calls Shutdown.
absl::StatusOr<std::unique_ptr<EvaluatorClient>> ConnectEvaluator(
    const std::string& address, const EvaluatorClient::Options& options,
    Clock& clock);

}  // namespace dice

#endif  // DICE_ACTOR_EVALUATOR_CLIENT_H_
