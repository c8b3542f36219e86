#include "evaluator/compile/confine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dice {
namespace {

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_EXECUTE |
                           LANDLOCK_ACCESS_FS_READ_FILE |
                           LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;

void Allow(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat st;
  if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
    rights &= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
              LANDLOCK_ACCESS_FS_WRITE_FILE;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(fd);
}

void Limit(int what, uint64_t value) {
  const rlimit limit{value, value};
  setrlimit(static_cast<__rlimit_resource_t>(what), &limit);
}

}  // namespace

void Confine(uint32_t cpu_s, uint64_t memory_bytes,
             const std::vector<std::string>& readable,
             const std::string& writable) {
  Limit(RLIMIT_CPU, cpu_s);
  Limit(RLIMIT_AS, memory_bytes);
  Limit(RLIMIT_FSIZE, uint64_t{256} << 20);
  Limit(RLIMIT_CORE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = kRead | kWrite;
  const int ruleset = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0));
  if (ruleset < 0) return;
  for (const std::string& path : readable) Allow(ruleset, path, kRead);
  Allow(ruleset, "/dev/null", kRead | kWrite);
  if (!writable.empty()) Allow(ruleset, writable, kRead | kWrite);
  syscall(SYS_landlock_restrict_self, ruleset, 0);
  close(ruleset);
}

void LeaveNetwork() {
  if (geteuid() == 0 && unshare(CLONE_NEWNET) != 0) {
    // Not allowed in this container: compilers have no use for it anyway.
  }
}

}  // namespace dice
