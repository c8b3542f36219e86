#include "evaluator/compile/object_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

// A cache needs no fsync: a lost entry is compiled again, and the rename keeps
// readers from seeing a part.
absl::Status WriteWhole(const std::string& path, const std::string& bytes) {
  static std::atomic<uint64_t> next{0};
  const std::string temporary =
      absl::StrCat(path, ".", getpid(), ".", next.fetch_add(1));
  const int fd =
      open(temporary.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  bool ok = fd >= 0;
  for (size_t at = 0; ok && at < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
    ok = n > 0 || errno == EINTR;
    if (n > 0) at += static_cast<size_t>(n);
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (ok && rename(temporary.c_str(), path.c_str()) == 0)
    return absl::OkStatus();
  unlink(temporary.c_str());
  const std::string text = absl::StrCat("cannot write ", path);
  return error == ENOSPC ? absl::ResourceExhaustedError(text)
                         : absl::InternalError(text);
}

}  // namespace

std::string ObjectCache::Base(const std::string& key) const {
  return absl::StrCat(folder_, "/", key.substr(0, 2), "/", key);
}

std::string ObjectCache::ObjectPath(const std::string& key) const {
  return Base(key) + ".so";
}

std::optional<CompileResult> ObjectCache::Find(const std::string& key) const {
  // First line: kind and tier; the rest: text.
  const auto stored = ReadFile(Base(key) + ".result");
  if (!stored.ok()) return std::nullopt;
  const size_t line = stored->find('\n');
  if (line == stored->npos || line < 2) return std::nullopt;
  CompileResult r;
  r.kind = static_cast<CompileResult::Kind>((*stored)[0] - '0');
  r.tier = stored->substr(2, line - 2);
  r.text = stored->substr(line + 1);
  r.cached = true;
  if (r.kind == CompileResult::Kind::kOk) {
    r.object_path = ObjectPath(key);
    if (access(r.object_path.c_str(), R_OK) != 0) return std::nullopt;
  }
  return r;
}

absl::Status ObjectCache::Store(const std::string& key,
                                const CompileResult& result,
                                const std::string& object) const {
  DICE_RETURN_IF_ERROR(MakeDirs(absl::StrCat(folder_, "/", key.substr(0, 2))));
  if (result.kind == CompileResult::Kind::kOk) {
    DICE_RETURN_IF_ERROR(WriteWhole(ObjectPath(key), object));
  }
  return WriteWhole(Base(key) + ".result",
                    absl::StrCat(static_cast<int>(result.kind), " ",
                                 result.tier, "\n", result.text));
}

}  // namespace dice
