// Whole-file reads and atomic writes.
#ifndef DICE_COMMON_BASE_FILE_H_
#define DICE_COMMON_BASE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

// NOT_FOUND, PERMISSION_DENIED or INTERNAL, with the path and errno's text.
absl::StatusOr<std::string> ReadFile(const std::string& path);
// Writes PATH.tmp.<pid>, fsyncs, renames, fsyncs the folder: a reader sees the
// old content or the new, never a part. RESOURCE_EXHAUSTED: the disk is full.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view data);
// Like mkdir -p. FAILED_PRECONDITION: a file stands in the way.
absl::Status MakeDirs(const std::string& path);
// Appends one line (newline added) and flushes it to the file.
absl::Status AppendLine(const std::string& path, absl::string_view line);
// Folder of the running executable, without a slash at the end.
std::string ExecutableDir();
std::string JoinPath(absl::string_view a, absl::string_view b);

}  // namespace dice

#endif  // DICE_COMMON_BASE_FILE_H_
