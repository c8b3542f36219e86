#include "common/base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

using nlohmann::json;
constexpr size_t kMaxMessage = 64 * 1024;
constexpr int kMaxFds = 16;
constexpr size_t kAlign = 64;

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::pair<OwnedFd, OwnedFd>> Channel::MakePair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(
        absl::StrCat("socketpair: ", strerror(errno)));
  }
  return std::pair{OwnedFd(fds[0]), OwnedFd(fds[1])};
}

absl::Status Channel::Send(const json& body, const std::vector<int>& fds) {
  std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxMessage || fds.size() > kMaxFds) {
    return absl::InvalidArgumentError("message too long");
  }
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr m = {};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  while (sendmsg(fd_.get(), &m, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return absl::UnavailableError(absl::StrCat("send: ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChannelMessage> Channel::Receive(absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("no answer in time");
    }
    pollfd p = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int ms = static_cast<int>(absl::ToInt64Milliseconds(
        std::min(absl::Ceil(left, absl::Milliseconds(1)), absl::Hours(1))));
    const int n = poll(&p, 1, ms);
    if (n > 0) break;
    if (n < 0 && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("poll: ", strerror(errno)));
    }
  }
  std::string buffer(kMaxMessage + 1, '\0');
  iovec part = {buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr m = {};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(fd_.get(), &m, MSG_CMSG_CLOEXEC);
  ChannelMessage out;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      out.fds.emplace_back(fd);
    }
  }
  if (n <= 0) return absl::UnavailableError("the peer is gone");
  if (static_cast<size_t>(n) > kMaxMessage || (m.msg_flags & MSG_TRUNC)) {
    return absl::InvalidArgumentError("message too long");
  }
  out.body = json::parse(buffer.data(), buffer.data() + n, nullptr, false);
  if (!out.body.is_object()) {
    return absl::InvalidArgumentError("message is not a JSON object");
  }
  return out;
}

absl::Status CopyBytes(int from, int to) {
  struct stat a, b;
  if (fstat(from, &a) != 0 || fstat(to, &b) != 0 || a.st_size != b.st_size) {
    return absl::InvalidArgumentError("sizes differ");
  }
  std::string part(std::min<size_t>(a.st_size, 1 << 20), '\0');
  for (off_t at = 0; at < a.st_size;) {
    const ssize_t n = pread(from, part.data(), part.size(), at);
    if (n <= 0 || pwrite(to, part.data(), n, at) != n) {
      return absl::UnavailableError(absl::StrCat("copy: ", strerror(errno)));
    }
    at += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnedFd> MakeMemfd() {
  OwnedFd fd(memfd_create("dice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) {
    return absl::UnavailableError(absl::StrCat("memfd: ", strerror(errno)));
  }
  return fd;
}

absl::StatusOr<OwnedFd> CopyMemfd(int from) {
  struct stat st;
  DICE_ASSIGN_OR_RETURN(OwnedFd to, MakeMemfd());
  if (fstat(from, &st) != 0 || ftruncate(to.get(), st.st_size) != 0 ||
      fcntl(to.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return absl::UnavailableError(absl::StrCat("memfd: ", strerror(errno)));
  }
  DICE_RETURN_IF_ERROR(CopyBytes(from, to.get()));
  return to;
}

absl::StatusOr<bool> SameBytes(int a, int b) {
  struct stat sa, sb;
  if (fstat(a, &sa) != 0 || fstat(b, &sb) != 0) {
    return absl::UnavailableError(absl::StrCat("stat: ", strerror(errno)));
  }
  if (sa.st_size != sb.st_size) return false;
  std::string pa(std::min<size_t>(sa.st_size, 1 << 20), '\0'), pb = pa;
  for (off_t at = 0; at < sa.st_size;) {
    const ssize_t n = pread(a, pa.data(), pa.size(), at);
    if (n <= 0 || pread(b, pb.data(), n, at) != n) {
      return absl::UnavailableError(absl::StrCat("read: ", strerror(errno)));
    }
    if (memcmp(pa.data(), pb.data(), n) != 0) return false;
    at += n;
  }
  return true;
}

absl::Status SealMemfd(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return absl::InvalidArgumentError("cannot be sealed");
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnedFd> StoreTree(const json& tree) {
  const std::string header =
      json({{"tree", tree}, {"tensors", json::array()}})
          .dump(-1, ' ', false, json::error_handler_t::replace);
  const uint64_t n = header.size();
  std::string file(reinterpret_cast<const char*>(&n), sizeof(n));
  file += header;
  file.resize((file.size() + kAlign - 1) / kAlign * kAlign, '\0');
  DICE_ASSIGN_OR_RETURN(OwnedFd fd, MakeMemfd());
  if (pwrite(fd.get(), file.data(), file.size(), 0) !=
      static_cast<ssize_t>(file.size())) {
    return absl::UnavailableError(absl::StrCat("memfd: ", strerror(errno)));
  }
  DICE_RETURN_IF_ERROR(SealMemfd(fd.get()));
  return fd;
}

absl::StatusOr<json> LoadTree(int fd, int64_t max_bytes) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size < 8 || st.st_size > max_bytes) {
    return absl::InvalidArgumentError("size out of range");
  }
  std::string file(st.st_size, '\0');
  if (pread(fd, file.data(), file.size(), 0) !=
      static_cast<ssize_t>(file.size())) {
    return absl::InvalidArgumentError("the file shrank");
  }
  uint64_t n;
  memcpy(&n, file.data(), sizeof(n));
  if (n > file.size() - 8) return absl::InvalidArgumentError("bad header");
  json header =
      json::parse(file.data() + 8, file.data() + 8 + n, nullptr, false);
  if (!header.is_object() || !header.contains("tree")) {
    return absl::InvalidArgumentError("malformed");
  }
  return header["tree"];
}

}  // namespace dice
