// Frames between the compiler and dice-compile-box, over a socket pair. A frame
// is a 32-bit length and that many bytes: fields written by FrameWriter.
#ifndef DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_
#define DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace dice {

struct BoxJob {
  enum class Kind : uint32_t { kNvrtc = 0, kExec = 1 };
  uint32_t id = 0;
  Kind kind = Kind::kExec;
  uint32_t cpu_s = 20;         // RLIMIT_CPU
  uint32_t wall_s = 60;        // then the job's group is killed
  uint32_t memory_mib = 3072;  // RLIMIT_AS beyond what the box itself maps
  // kExec: the command line; kNvrtc: the options.
  std::vector<std::string> args;
  std::string input;   // standard input, or the program's source
  std::string folder;  // the only one where it may write
};

struct BoxResult {
  enum class End : uint32_t { kExit = 0, kSignal = 1, kTimeout = 2 };
  uint32_t id = 0;
  End end = End::kExit;
  uint32_t code = 0;  // exit code or signal
  double cpu_s = 0;
  std::string log;  // stdout and stderr, cut at 64 KiB
};

// kNvrtc exits with these.
inline constexpr uint32_t kNvrtcOk = 0, kNvrtcRejected = 1, kNvrtcBroken = 2;

class FrameWriter {
 public:
  void Number(uint32_t v) { Raw(&v, sizeof(v)); }
  void Real(double v) { Raw(&v, sizeof(v)); }
  void Text(std::string_view s) {
    Number(static_cast<uint32_t>(s.size()));
    Raw(s.data(), s.size());
  }
  // The frame with its length in front.
  std::string Take() {
    const uint32_t n = static_cast<uint32_t>(bytes_.size());
    return std::string(reinterpret_cast<const char*>(&n), 4) + bytes_;
  }

 private:
  void Raw(const void* p, size_t n) {
    bytes_.append(static_cast<const char*>(p), n);
  }
  std::string bytes_;
};

// Reads in the order of writing; past the end everything is 0 and empty.
class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : rest_(bytes) {}
  uint32_t Number() { return Raw<uint32_t>(); }
  double Real() { return Raw<double>(); }
  std::string Text() {
    const size_t n = std::min<size_t>(Number(), rest_.size());
    std::string s(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return s;
  }

 private:
  template <typename T>
  T Raw() {
    T v{};
    if (rest_.size() < sizeof(T)) return v;
    std::memcpy(&v, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return v;
  }
  std::string_view rest_;
};

std::string Encode(const BoxJob& job);
BoxJob DecodeJob(std::string_view frame);
std::string Encode(const BoxResult& result);
BoxResult DecodeResult(std::string_view frame);

// Takes the first whole frame off `buffer`; false: not there yet.
bool TakeFrame(std::string* buffer, std::string* frame);

}  // namespace dice

#endif  // DICE_EVALUATOR_COMPILE_BOX_PROTOCOL_H_
