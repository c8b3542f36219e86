// Each rule of the jail fires, and nothing more. Real namespaces, real kernel:
// needs root for the full level (without it, a kernel that allows user
// namespaces).
#include "evaluator/sandbox/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

constexpr int64_t kMiB = 1 << 20;

dice_jail_limits Limits() {
  return {.data_bytes = 512 * kMiB,
          .file_bytes = 2 * kMiB,
          .open_files = 32,
          .cpu_seconds = 20,
          .uid = 61300,
          .threads = 8,
          .role = DICE_JAIL_RUNNER};
}

// How a jailed program ended: "exit 3", "signal 31", or why there is no jail.
// `body` runs inside; its value is the exit code. Everything happens in a child
// of the test, since a jail is for ever.
std::string InJail(int level, const dice_jail_limits& limits,
                   const std::function<int()>& body, uid_t as_user = 0) {
  char root[] = "/tmp/jail-test-XXXXXX";
  if (mkdtemp(root) == nullptr) return "no folder";
  chmod(root, 0755);
  int answer[2];
  if (pipe(answer) != 0) return "no pipe";
  const pid_t zygote = fork();
  if (zygote == 0) {
    std::string text;
    char error[256];
    int pidfd = -1, status = 0;
    if (as_user != 0 && (setresgid(as_user, as_user, as_user) != 0 ||
                         setresuid(as_user, as_user, as_user) != 0)) {
      text = "cannot change user";
    } else if (as_user != 0 && prctl(PR_SET_DUMPABLE, 1) != 0) {
      text = "prctl";  // a change of user took /proc/self from it
    } else if (dice_jail_prepare(level, root, "/usr/lib\n/lib\n/lib64", error,
                                 sizeof error) != level) {
      text = std::string("level not reached: ") + error;
    } else {
      const pid_t pid = dice_jail_fork(&limits, &pidfd, error, sizeof error);
      if (pid == 0) _exit(body());
      if (pid < 0) {
        text = error;
      } else {
        waitpid(pid, &status, 0);
        text = WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                                 : "signal " + std::to_string(WTERMSIG(status));
      }
    }
    (void)!write(answer[1], text.data(), text.size());
    _exit(0);
  }
  close(answer[1]);
  char text[512];
  const ssize_t n = read(answer[0], text, sizeof text);
  close(answer[0]);
  waitpid(zygote, nullptr, 0);
  rmdir(root);
  return std::string(text, n > 0 ? n : 0);
}

// errno of a call that fails, 0 of one that works.
int ErrnoOf(long result) { return result >= 0 ? 0 : errno; }

std::string ReadText(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool StatusSays(const char* line) {
  return ReadText("/proc/self/status").find(line) != std::string::npos;
}

struct Call {
  const char* name;
  std::function<int()> body;
};

const std::string kKilled = "signal " + std::to_string(SIGSYS);

TEST(JailTest, CallsThatOnlyAnAttackNeedsEndTheProcess) {
  const std::vector<Call> calls = {
      {"fork", [] { return static_cast<int>(syscall(SYS_clone, SIGCHLD, 0)); }},
      {"execve", [] { return execl("/lib/x", "x", nullptr); }},
      {"ptrace", [] { return ErrnoOf(ptrace(PTRACE_TRACEME, 0, 0, 0)); }},
      {"mount", [] { return mount("x", "/tmp", "tmpfs", 0, nullptr); }},
      {"umount", [] { return umount2("/tmp", 0); }},
      {"chroot", [] { return chroot("/tmp"); }},
      {"pivot_root",
       [] { return ErrnoOf(syscall(SYS_pivot_root, "/tmp", "/tmp")); }},
      {"unshare", [] { return unshare(CLONE_NEWUSER); }},
      {"setns", [] { return setns(0, 0); }},
      {"internet socket", [] { return socket(AF_INET, SOCK_STREAM, 0); }},
      {"netlink socket", [] { return socket(AF_NETLINK, SOCK_RAW, 0); }},
      {"bpf", [] { return ErrnoOf(syscall(SYS_bpf, 0, nullptr, 0)); }},
      {"perf", [] { return ErrnoOf(syscall(SYS_perf_event_open, 0, 0)); }},
      {"io_uring", [] { return ErrnoOf(syscall(SYS_io_uring_setup, 1, 0)); }},
      {"keyctl",
       [] { return ErrnoOf(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, 0)); }},
      {"userfaultfd", [] { return ErrnoOf(syscall(SYS_userfaultfd, 0)); }},
      {"init_module",
       [] { return ErrnoOf(syscall(SYS_init_module, 0, 0, 0)); }},
      {"open_by_handle_at",
       [] { return ErrnoOf(syscall(SYS_open_by_handle_at, 0, 0, 0)); }},
      {"process_vm_readv",
       [] { return ErrnoOf(syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)); }},
  };
  for (const int level : {DICE_JAIL_FULL, DICE_JAIL_PARTIAL}) {
    for (const Call& call : calls) {
      EXPECT_EQ(InJail(level, Limits(), call.body), kKilled)
          << call.name << " at level " << level;
    }
  }
}

TEST(JailTest, CallsThatAreMerelyNotNeededFail) {
  const std::vector<Call> calls = {
      {"shmget", [] { return ErrnoOf(syscall(SYS_shmget, 0, 4096, 0600)); }},
      {"msgget", [] { return ErrnoOf(syscall(SYS_msgget, 0, 0600)); }},
      {"memfd", [] { return ErrnoOf(syscall(SYS_memfd_create, "x", 0)); }},
      {"symlink", [] { return ErrnoOf(symlink("/", "/tmp/x")); }},
      {"mknod", [] { return ErrnoOf(mknod("/tmp/x", S_IFIFO | 0600, 0)); }},
      {"hostname", [] { return ErrnoOf(sethostname("x", 1)); }},
      {"local socket", [] { return ErrnoOf(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      {"setuid", [] { return ErrnoOf(setuid(0)); }},
      {"affinity",
       [] {
         cpu_set_t set;
         CPU_ZERO(&set);
         return ErrnoOf(sched_setaffinity(0, sizeof set, &set));
       }},
  };
  for (const Call& call : calls) {
    EXPECT_EQ(InJail(DICE_JAIL_FULL, Limits(), call.body),
              "exit " + std::to_string(EPERM))
        << call.name;
  }
}

TEST(JailTest, WhatPythonAndTorchNeedWorks) {
  EXPECT_EQ(InJail(DICE_JAIL_FULL, Limits(),
                   [] {
                     pthread_t thread;
                     void* value = nullptr;
                     const auto body = [](void* p) { return p; };
                     if (pthread_create(&thread, nullptr, body, &value)) {
                       return 1;
                     }
                     if (pthread_join(thread, &value)) return 2;
                     std::ofstream("/tmp/file") << "text";
                     if (ReadText("/tmp/file") != "text") return 3;
                     if (ReadText("/proc/self/maps").empty()) return 4;
                     if (open("/dev/null", O_RDWR) < 0) return 5;
                     return access("/usr/lib", R_OK) == 0 ? 0 : 6;
                   }),
            "exit 0");
}

TEST(JailTest, OnlyTheOracleMakesMemfds) {
  dice_jail_limits oracle = Limits();
  oracle.role = DICE_JAIL_ORACLE;
  EXPECT_EQ(InJail(DICE_JAIL_FULL, oracle,
                   [] { return ErrnoOf(memfd_create("x", MFD_CLOEXEC)); }),
            "exit 0");
}

TEST(JailTest, FullHasAWorldOfItsOwn) {
  const std::vector<Call> facts = {
      {"it is pid 1", [] { return getpid() == 1 ? 0 : 1; }},
      {"nobody else in /proc", [] { return access("/proc/2", F_OK) ? 0 : 1; }},
      {"no passwd", [] { return access("/etc/passwd", F_OK) ? 0 : 1; }},
      {"no home", [] { return access("/root", F_OK) ? 0 : 1; }},
      {"no /.old", [] { return access("/.old/etc", F_OK) ? 0 : 1; }},
      {"no write to /usr",
       [] { return open("/usr/lib/x", O_CREAT | O_WRONLY, 0600) < 0 ? 0 : 1; }},
      {"no write to /",
       [] { return open("/x", O_CREAT | O_WRONLY, 0600) < 0 ? 0 : 1; }},
      {"no capability",
       [] {
         return StatusSays("CapEff:\t0000000000000000\n") &&
                        StatusSays("CapPrm:\t0000000000000000\n") &&
                        StatusSays("CapBnd:\t0000000000000000\n")
                    ? 0
                    : 1;
       }},
      {"no new privileges",
       [] { return StatusSays("NoNewPrivs:\t1\n") ? 0 : 1; }},
      {"a filter", [] { return StatusSays("Seccomp:\t2\n") ? 0 : 1; }},
      {"no network but a loopback that is down",
       [] {
         std::istringstream lines(ReadText("/proc/net/dev"));
         int interfaces = 0;
         for (std::string line; std::getline(lines, line);) {
           interfaces += line.find(':') != std::string::npos;
         }
         return interfaces == 1 ? 0 : 1;
       }},
  };
  for (const Call& fact : facts) {
    EXPECT_EQ(InJail(DICE_JAIL_FULL, Limits(), fact.body), "exit 0")
        << fact.name;
  }
  if (geteuid() == 0) {
    EXPECT_EQ(InJail(DICE_JAIL_FULL, Limits(),
                     [] { return getuid() == 61300 ? 0 : 1; }),
              "exit 0");
  }
}

TEST(JailTest, FullWorksWithoutRootWhereUserNamespacesAreAllowed) {
  if (geteuid() != 0) GTEST_SKIP() << "the other tests show it already";
  const std::string end = InJail(
      DICE_JAIL_FULL, Limits(),
      [] {
        return getpid() == 1 && access("/etc/passwd", F_OK) != 0 &&
                       StatusSays("CapEff:\t0000000000000000\n")
                   ? 0
                   : 1;
      },
      /*as_user=*/65534);
  if (end.find("not allowed here") != std::string::npos) GTEST_SKIP() << end;
  EXPECT_EQ(end, "exit 0");
}

TEST(JailTest, FilesMayReachTheirLimitAndNotAByteMore) {
  const auto write_bytes = [](int64_t bytes) {
    return InJail(DICE_JAIL_FULL, Limits(), [bytes] {
      const int fd = open("/tmp/x", O_CREAT | O_WRONLY, 0600);
      return ErrnoOf(ftruncate(fd, bytes));
    });
  };
  EXPECT_EQ(write_bytes(2 * kMiB), "exit 0");
  EXPECT_EQ(write_bytes(2 * kMiB + 1), "exit " + std::to_string(EFBIG));
}

TEST(JailTest, PrivateMemoryIsLimited) {
  const auto map_bytes = [](int64_t bytes) {
    return InJail(DICE_JAIL_FULL, Limits(), [bytes] {
      void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return p == MAP_FAILED ? errno : 0;
    });
  };
  EXPECT_EQ(map_bytes(256 * kMiB), "exit 0");
  EXPECT_EQ(map_bytes(513 * kMiB), "exit " + std::to_string(ENOMEM));
}

TEST(JailTest, DescriptorsAndThreadsAreLimited) {
  EXPECT_EQ(InJail(DICE_JAIL_FULL, Limits(),
                   [] {
                     int opened = 0;
                     while (dup(0) >= 0) ++opened;
                     return opened > 16 && opened < 32 ? errno : 1;
                   }),
            "exit " + std::to_string(EMFILE));
  if (geteuid() != 0) return;
  EXPECT_EQ(
      InJail(DICE_JAIL_FULL, Limits(),
             [] {
               pthread_t thread;
               int started = 0;
               const auto body = [](void* p) {
                 pause();
                 return p;
               };
               while (started < 64 &&
                      pthread_create(&thread, nullptr, body, nullptr) == 0) {
                 ++started;
               }
               return started;
             }),
      "exit 7");  // and the first thread
}

TEST(JailTest, PartialAndNoneSayWhatTheyAre) {
  EXPECT_EQ(InJail(DICE_JAIL_PARTIAL, Limits(),
                   [] {
                     return getpid() != 1 && StatusSays("NoNewPrivs:\t1\n") &&
                                    StatusSays("Seccomp:\t2\n") &&
                                    StatusSays("CapEff:\t0000000000000000\n")
                                ? 0
                                : 1;
                   }),
            "exit 0");
  EXPECT_EQ(InJail(DICE_JAIL_NONE, Limits(),
                   [] {
                     const pid_t pid = fork();
                     if (pid == 0) _exit(0);
                     return pid > 0 && StatusSays("Seccomp:\t0\n") ? 0 : 1;
                   }),
            "exit 0");
}

}  // namespace
