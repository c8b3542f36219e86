// JSON messages with file descriptors over SOCK_SEQPACKET, as
// evaluator/runner/wire.py speaks them.
#ifndef DICE_COMMON_BASE_CHANNEL_H_
#define DICE_COMMON_BASE_CHANNEL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace dice {

// A file descriptor that is closed when it goes out of scope. Move-only.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  int get() const { return fd_; }

 private:
  int fd_;
};

struct ChannelMessage {
  nlohmann::json body;
  std::vector<OwnedFd> fds;
};

// One end of a conversation. Not thread-safe; one sender and one receiver at a
// time may be different threads.
class Channel {
 public:
  // Two connected ends, both close-on-exec.
  static absl::StatusOr<std::pair<OwnedFd, OwnedFd>> MakePair();
  explicit Channel(OwnedFd fd) : fd_(std::move(fd)) {}

  // UNAVAILABLE: the peer is gone. INVALID_ARGUMENT: longer than 64 KiB.
  absl::Status Send(const nlohmann::json& body,
                    const std::vector<int>& fds = {});
  // UNAVAILABLE: the peer is gone. DEADLINE_EXCEEDED. INVALID_ARGUMENT: not
  // JSON, or too long (the peer may be hostile).
  absl::StatusOr<ChannelMessage> Receive(absl::Time deadline);
  int fd() const { return fd_.get(); }

 private:
  OwnedFd fd_;
};

// An empty memfd.
absl::StatusOr<OwnedFd> MakeMemfd();
// A copy of memfd `from`, in the same format, whose size nobody can change.
absl::StatusOr<OwnedFd> CopyMemfd(int from);
// Overwrites `to` with the bytes of `from`. INVALID_ARGUMENT: sizes differ.
absl::Status CopyBytes(int from, int to);
// Whether two files hold the same bytes.
absl::StatusOr<bool> SameBytes(int a, int b);
// Nobody can write to `fd` any more. INVALID_ARGUMENT: it is not a memfd, or a
// peer still has it mapped for writing.
absl::Status SealMemfd(int fd);

// A sealed memfd in the tensor format that holds one JSON tree (no tensors).
absl::StatusOr<OwnedFd> StoreTree(const nlohmann::json& tree);
// The JSON tree of a memfd written by a hostile peer; at most `max_bytes`.
absl::StatusOr<nlohmann::json> LoadTree(int fd, int64_t max_bytes);

}  // namespace dice

#endif  // DICE_COMMON_BASE_CHANNEL_H_
