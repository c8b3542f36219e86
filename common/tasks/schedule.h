// The order in which a stage's tasks are leased. A schedule is a pure function
// of (kind, tasks, seed) and, for BY_DIFFICULTY, of the pass rates told to it,
// so that a resumed run goes on exactly where it stopped.
#ifndef DICE_COMMON_TASKS_SCHEDULE_H_
#define DICE_COMMON_TASKS_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/config.pb.h"
#include "proto/task.pb.h"

namespace dice {

// Endless: after the last task of an epoch the next epoch begins.
//   SEQUENTIAL_ORDER  the file's order;
//   SHUFFLED          a new order each epoch, in which every stretch holds the
//                     families in their shares;
//   BY_DIFFICULTY     easiest first by the pass rates known when the epoch
//                     begins; a task never tried counts as one half.
// Not thread-safe: the owner of the leases locks.
class TaskSchedule {
 public:
  // `tasks` may be dropped afterwards. Quarantined ones are never given.
  // FAILED_PRECONDITION: none is left.
  static absl::StatusOr<TaskSchedule> Create(Schedule kind,
                                             const std::vector<Task>& tasks,
                                             uint64_t seed);

  // Index into `tasks` of the next one.
  size_t Next();
  // How many Next() calls there were; unique per lease, so it keys its streams.
  uint64_t ordinal() const { return ordinal_; }
  int64_t epoch() const { return epoch_; }

  // `correct` of `tried` responses of task `index` were right.
  void Record(size_t index, int correct, int tried);
  // Share of right responses, with a prior of one in two.
  double PassRate(size_t index) const;

  // Everything that Next() depends on, as one line of JSON.
  std::string SaveCursor() const;
  // INVALID_ARGUMENT: not a cursor, or one of other tasks.
  absl::Status RestoreCursor(absl::string_view cursor);

 private:
  TaskSchedule() = default;
  void StartEpoch();
  std::vector<size_t> ShuffledOrder() const;

  Schedule kind_ = SCHEDULE_UNSPECIFIED;
  uint64_t seed_ = 0;
  std::vector<size_t> usable_;         // indices, file order
  std::vector<std::string> families_;  // of every task
  std::string fingerprint_;            // of the task ids
  std::vector<int64_t> correct_, tried_;
  int64_t epoch_ = -1;
  std::vector<size_t> order_;  // of this epoch
  size_t position_ = 0;        // in order_
  uint64_t ordinal_ = 0;
};

}  // namespace dice

#endif  // DICE_COMMON_TASKS_SCHEDULE_H_
