// What goes into the EvaluationQueue and what comes out.
#ifndef DICE_EVALUATOR_POOL_QUEUE_TYPES_H_
#define DICE_EVALUATOR_POOL_QUEUE_TYPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/evaluator_service.pb.h"
#include "proto/verdict.pb.h"
#include "proto/worker_service.pb.h"

namespace dice {

// A stream of a client or of a worker; never reused.
using ClientId = uint64_t;
using WorkerId = uint64_t;

struct QueueOptions {
  int64_t queue_limit = 16384;   // evaluations that wait, over all clients
  int64_t client_limit = 16384;  // of one client
  absl::Duration lease = absl::Seconds(30);
  int max_infra_errors = 3;   // on different workers, then it is lost
  int max_worker_losses = 5;  // leases that expired or died with a worker
  absl::Duration retry_delay = absl::Milliseconds(500);  // doubles
  bool confirm_timeouts = true;  // a TIMEOUT is repeated alone before it counts
};

struct EvaluationRequest {
  std::string key;  // by content: equal keys are one evaluation
  std::string candidate_source;
  std::string task_digest;
  Profile profile;
  bool task_known = true;      // false: held back until TaskArrived
  bool cache_checked = false;  // handed through to the Assignment
};

enum class Admission {
  kQueued,
  kJoined,  // the same key waits or runs already: one evaluation, two answers
  kFull,    // refused, nothing was kept
};

// One evaluation for one worker to do.
struct Assignment {
  WorkerId worker = 0;
  EvaluationLease lease;
  bool cache_checked = false;
};

// Why an evaluation goes back into the queue.
enum class Requeue { kWorkerLost, kLeaseExpired, kInfraError, kConfirmTimeout };

// What the owner of the queue has to do after a call.
struct Effects {
  struct Answer {
    ClientId client;
    EvaluateResponse response;
  };
  struct Cancel {
    WorkerId worker;
    std::string key;
  };
  struct Decided {
    std::string key;
    Verdict verdict;
  };
  std::vector<Answer> answers;
  std::vector<Cancel> cancels;
  std::vector<Decided> cacheable;  // verdicts that hold for good
  // For the metrics.
  std::vector<Decided> decided;  // every verdict that answered someone
  std::vector<Requeue> requeues;
  int64_t late_accepted = 0;  // results of a lost lease that still counted
  int64_t late_ignored = 0;
  int64_t lost = 0;  // evaluations given up after infrastructure failures
};

struct QueueStats {
  int64_t queued = 0;  // parked and retrying ones included
  int64_t leased = 0;
  int64_t clients = 0;
  absl::Duration oldest_lease;
  std::vector<WorkerStatus> workers;
};

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_QUEUE_TYPES_H_
