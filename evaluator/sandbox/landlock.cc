#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "evaluator/sandbox/jail_state.h"

namespace dice {
namespace {

constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
    LANDLOCK_ACCESS_FS_MAKE_REG;
// Handled and never granted: these have no use in a jail.
constexpr uint64_t kNever =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

bool Allow(int ruleset, const char* path, uint64_t access) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return true;  // not here, so nothing to allow
  struct stat info = {};
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) access &= kOfFiles;
  const landlock_path_beneath_attr rule = {.allowed_access = access,
                                           .parent_fd = fd};
  const long rc = syscall(SYS_landlock_add_rule, ruleset,
                          LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(fd);
  return rc == 0;
}

}  // namespace

bool HasLandlock() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0,
                 LANDLOCK_CREATE_RULESET_VERSION) >= 1;
}

const char* RestrictFiles() {
  if (!HasLandlock()) return nullptr;
  // Only the first field: an older kernel refuses a larger structure.
  const uint64_t handled = kRead | kWrite | kNever;
  const int ruleset = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
  if (ruleset < 0) return "Landlock ruleset";
  bool ok = true;
  if (Jail().level == DICE_JAIL_FULL) {
    ok = Allow(ruleset, "/", kRead);  // the tree itself is the allow-list
  } else {
    for (const std::string& path : Jail().readable) {
      ok = ok && Allow(ruleset, path.c_str(), kRead);
    }
    ok = ok && Allow(ruleset, "/proc/self", kRead);
  }
  // Below FULL, /tmp is everybody's.
  if (Jail().level == DICE_JAIL_FULL) {
    ok = ok && Allow(ruleset, "/tmp", kRead | kWrite);
  }
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/urandom"}) {
    ok = ok && Allow(ruleset, path, kRead | kWrite);
  }
  ok = ok && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return ok ? nullptr : "Landlock";
}

}  // namespace dice
