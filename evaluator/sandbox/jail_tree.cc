#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "evaluator/sandbox/jail_state.h"

namespace dice {
namespace {

bool MakePath(const std::string& path) {
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i == path.size() || path[i] == '/') {
      if (mkdir(path.substr(0, i).c_str(), 0755) != 0 && errno != EEXIST) {
        return false;
      }
    }
  }
  return true;
}

// A read-only bind of `path` at the same name below the root; symbolic links
// are copied as links.
bool Bind(const std::string& path, char* error, int size) {
  const std::string target = Jail().root + path;
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return true;  // not on this machine
  if (S_ISLNK(st.st_mode)) {
    char link[4096];
    const ssize_t n = readlink(path.c_str(), link, sizeof(link) - 1);
    if (n < 0) return JailFail(error, size, "readlink", path.c_str());
    link[n] = '\0';
    (void)MakePath(target.substr(0, target.rfind('/')));
    if (symlink(link, target.c_str()) != 0 && errno != EEXIST) {
      return JailFail(error, size, "symlink", target.c_str());
    }
    return true;
  }
  if (S_ISDIR(st.st_mode)) {
    if (!MakePath(target))
      return JailFail(error, size, "mkdir", target.c_str());
  } else {
    (void)MakePath(target.substr(0, target.rfind('/')));
    const int fd = open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return JailFail(error, size, "create", target.c_str());
    close(fd);
  }
  if (mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr)) {
    return JailFail(error, size, "bind", path.c_str());
  }
  const bool device = path.rfind("/dev/", 0) == 0;
  const unsigned long flags =
      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | (device ? 0 : MS_NODEV);
  if (!device && mount(nullptr, target.c_str(), nullptr, flags, nullptr)) {
    return JailFail(error, size, "remount read-only", target.c_str());
  }
  return true;
}

bool WriteText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

// A mount namespace to build in. Without root that takes a user namespace, in
// which this process may mount what the real user may read.
bool OwnMounts(char* error, int size) {
  if (geteuid() == 0) {
    if (unshare(CLONE_NEWNS) == 0) return true;
    return JailFail(error, size, "unshare mounts");
  }
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return JailFail(error, size, "unshare a user namespace (not allowed here)");
  }
  Jail().one_uid = true;
  if (!WriteText("/proc/self/setgroups", "deny") ||
      !WriteText("/proc/self/uid_map", "0 " + uid + " 1") ||
      !WriteText("/proc/self/gid_map", "0 " + gid + " 1")) {
    return JailFail(error, size, "map user ids");
  }
  return true;
}

}  // namespace

// The tree that every child pivots into. The zygote gets a mount namespace of
// its own, so the host never sees it.
bool BuildTree(char* error, int size) {
  if (!OwnMounts(error, size)) return false;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return JailFail(error, size, "make / private");
  }
  const std::string& root = Jail().root;
  if (mount("dice", root.c_str(), "tmpfs", MS_NOSUID, "size=1m,mode=755")) {
    return JailFail(error, size, "tmpfs at", root.c_str());
  }
  for (const char* dir : {"/proc", "/tmp", "/dev", "/.old"}) {
    if (!MakePath(root + dir)) return JailFail(error, size, "mkdir", dir);
  }
  for (const char* dev : {"/dev/null", "/dev/zero", "/dev/urandom"}) {
    if (!Bind(dev, error, size)) return false;
  }
  for (const std::string& path : Jail().readable) {
    if (!Bind(path, error, size)) return false;
  }
  return true;
}

// Runs in the child. Each step must succeed: a jail with a hole is no jail.
const char* EnterTree() {
  const std::string& root = Jail().root;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) {
    return "make / private";
  }
  // pivot_root wants a mount point that is not the current root.
  if (mount(root.c_str(), root.c_str(), nullptr, MS_BIND | MS_REC, nullptr)) {
    return "bind root";
  }
  if (chdir(root.c_str())) return "chdir root";
  if (mount("tmp", "tmp", "tmpfs", MS_NOSUID | MS_NODEV,
            "size=64m,nr_inodes=4k,mode=1777")) {
    return "mount /tmp";
  }
  if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            nullptr)) {
    return "mount /proc";
  }
  if (syscall(SYS_pivot_root, ".", ".old")) return "pivot_root";
  if (chdir("/")) return "chdir /";
  if (umount2("/.old", MNT_DETACH)) return "unmount the host";
  if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID,
            nullptr)) {
    return "remount / read-only";
  }
  return nullptr;
}

}  // namespace dice
