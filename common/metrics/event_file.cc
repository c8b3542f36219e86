#include "common/metrics/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "proto/tensorboard.pb.h"

namespace dice {
namespace {

constexpr std::array<uint32_t, 256> CrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) {
      c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f63b78u : 0u);
    }
    table[i] = c;
  }
  return table;
}

// TFRecord is little-endian, and so is every machine with a GPU of ours.
template <typename T>
absl::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

double UnixSeconds(absl::Time t) {
  return absl::ToDoubleSeconds(t - absl::UnixEpoch());
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = CrcTable();
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const std::string& dir, Clock& clock) {
  DICE_RETURN_IF_ERROR(MakeDirs(dir));
  const std::string path =
      JoinPath(dir, absl::StrCat("events.out.tfevents.",
                                 absl::ToUnixSeconds(clock.Now()), ".",
                                 getpid(), ".dice"));
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::InternalError(
        absl::StrCat("creating ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<EventFile> file(new EventFile(fd, clock));
  tensorboard::Event header;
  header.set_wall_time(UnixSeconds(clock.Now()));
  header.set_file_version("brain.Event:2");
  DICE_RETURN_IF_ERROR(file->WriteRecord(header.SerializeAsString())) << path;
  return file;
}

EventFile::~EventFile() { close(fd_); }

absl::Status EventFile::WriteScalars(
    int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  tensorboard::Event event;
  event.set_wall_time(UnixSeconds(clock_.Now()));
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    tensorboard::Value* v = event.mutable_summary()->add_value();
    v->set_tag(tag);
    v->set_simple_value(static_cast<float>(value));
  }
  return WriteRecord(event.SerializeAsString());
}

absl::Status EventFile::WriteRecord(absl::string_view data) {
  const uint64_t size = data.size();
  const uint32_t size_crc = MaskedCrc32c(Bytes(size));
  const uint32_t data_crc = MaskedCrc32c(data);
  const std::string record =
      absl::StrCat(Bytes(size), Bytes(size_crc), data, Bytes(data_crc));
  // One write: a reader that follows the file meets whole records.
  const ssize_t n = write(fd_, record.data(), record.size());
  if (n == static_cast<ssize_t>(record.size())) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "writing an event: ", n < 0 ? std::strerror(errno) : "the disk is full"));
}

}  // namespace dice
