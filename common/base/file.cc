#include "common/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

absl::Status ErrnoStatus(absl::string_view what, const std::string& path) {
  const int e = errno;
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(e));
  switch (e) {
    case ENOENT: return absl::NotFoundError(text);
    case EACCES:
    case EPERM: return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT: return absl::ResourceExhaustedError(text);
    default: return absl::InternalError(text);
  }
}

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("writing", path);
    data.remove_prefix(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("opening", path);
  std::string out;
  char buffer[1 << 16];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      absl::Status s = ErrnoStatus("reading", path);
      close(fd);
      return s;
    }
    out.append(buffer, n);
  }
  close(fd);
  return out;
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view data) {
  const std::string tmp = absl::StrCat(path, ".tmp.", getpid());
  const int fd =
      open(tmp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus("creating", tmp);
  absl::Status status = WriteAll(fd, data, tmp);
  if (status.ok() && fsync(fd) != 0) status = ErrnoStatus("syncing", tmp);
  close(fd);
  if (status.ok() && rename(tmp.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("renaming to", path);
  }
  if (!status.ok()) {
    unlink(tmp.c_str());
    return status;
  }
  const std::string dir = std::filesystem::path(path).parent_path();
  const int dfd = open(dir.empty() ? "." : dir.c_str(), O_RDONLY | O_CLOEXEC);
  if (dfd >= 0) {
    fsync(dfd);
    close(dfd);
  }
  return absl::OkStatus();
}

absl::Status MakeDirs(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  if (ec) {
    return absl::FailedPreconditionError(
        absl::StrCat("creating folder ", path, ": ", ec.message()));
  }
  return absl::OkStatus();
}

absl::Status AppendLine(const std::string& path, absl::string_view line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                      0644);
  if (fd < 0) return ErrnoStatus("opening", path);
  absl::Status status = WriteAll(fd, absl::StrCat(line, "\n"), path);
  close(fd);
  return status;
}

std::string ExecutableDir() {
  std::error_code ec;
  return std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty() || (!b.empty() && b.front() == '/')) return std::string(b);
  return absl::StrCat(a, a.back() == '/' ? "" : "/", b);
}

}  // namespace dice
