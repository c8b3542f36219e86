// What the pool remembers over a restart: verdicts and tasks, in SQLite (WAL).
// It only saves time: every failure here is a miss, never a wrong answer.
#ifndef DICE_EVALUATOR_POOL_POOL_STORE_H_
#define DICE_EVALUATOR_POOL_POOL_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/task.pb.h"
#include "proto/verdict.pb.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dice {

// Thread-safe; a call takes some 20 microseconds, under a lock that guards the
// one connection and nothing else.
class PoolStore {
 public:
  struct Options {
    std::string path;  // empty: in memory
    // Verdicts that hold measured times are a miss when older; others hold for
    // good.
    absl::Duration timing_ttl = absl::Hours(24 * 7);
  };
  // A damaged file, or one of another version, is moved aside and replaced.
  // INTERNAL: the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<PoolStore>> Open(
      const Options& options, Clock& clock = Clock::Real());
  PoolStore(const PoolStore&) = delete;
  PoolStore& operator=(const PoolStore&) = delete;
  ~PoolStore();

  // `device_class`: device and harness version, the part of the evaluation key
  // that belongs to the workers.
  std::optional<Verdict> FindVerdict(const std::string& key,
                                     const std::string& device_class)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status PutVerdict(const std::string& key,
                          const std::string& device_class,
                          const Verdict& verdict) ABSL_LOCKS_EXCLUDED(mu_);

  bool HasTask(const std::string& digest) ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<Task> FindTask(const std::string& digest)
      ABSL_LOCKS_EXCLUDED(mu_);
  // A task is known afterwards in any case: what the file cannot take is kept
  // in memory, and the error returned.
  absl::Status PutTask(const std::string& digest, const Task& task)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  PoolStore(const Options& options, Clock& clock)
      : options_(options), clock_(clock) {}
  absl::Status Connect();
  void Disconnect();
  // Binds and runs `statement` to its first row.
  absl::StatusOr<std::optional<std::string>> FirstBlob(sqlite3_stmt* statement,
                                                       const std::string& a,
                                                       const std::string& b)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Clock& clock_;
  Mutex mu_;
  sqlite3* db_ ABSL_GUARDED_BY(mu_) = nullptr;
  sqlite3_stmt* find_verdict_ ABSL_GUARDED_BY(mu_) = nullptr;
  sqlite3_stmt* put_verdict_ ABSL_GUARDED_BY(mu_) = nullptr;
  sqlite3_stmt* find_task_ ABSL_GUARDED_BY(mu_) = nullptr;
  sqlite3_stmt* put_task_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::unordered_map<std::string, Task> unsaved_tasks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dice

#endif  // DICE_EVALUATOR_POOL_POOL_STORE_H_
