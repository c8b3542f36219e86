#include "common/text/fenced_code.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace dice {
namespace {

struct Fence {
  char mark = '\0';
  size_t length = 0;
  absl::string_view info;
};

// The fence that `line` is, if it is one.
std::optional<Fence> FenceOf(absl::string_view line) {
  size_t indent = 0;
  while (indent < line.size() && line[indent] == ' ') ++indent;
  line.remove_prefix(indent);
  if (indent > 3 || line.empty() || (line[0] != '`' && line[0] != '~')) {
    return std::nullopt;
  }
  Fence fence{.mark = line[0]};
  while (fence.length < line.size() && line[fence.length] == fence.mark) {
    ++fence.length;
  }
  fence.info = absl::StripAsciiWhitespace(line.substr(fence.length));
  // An info string with a backtick is inline code, not a fence.
  if (fence.length < 3 || fence.info.find('`') != absl::string_view::npos) {
    return std::nullopt;
  }
  return fence;
}

// Higher is likelier to be the program; 0 = some other language.
int Rank(absl::string_view info) {
  static constexpr std::array<absl::string_view, 6> kCode = {
      "python", "py", "cpp", "c++", "cuda", "cu"};
  const std::string language = absl::AsciiStrToLower(
      info.substr(0, std::min(info.find_first_of(" {\t"), info.size())));
  if (language.empty()) return 1;
  return std::count(kCode.begin(), kCode.end(), language) > 0 ? 2 : 0;
}

}  // namespace

std::optional<std::string> ExtractFencedCode(absl::string_view text) {
  constexpr absl::string_view kThought = "</think>";
  if (const size_t at = text.rfind(kThought); at != absl::string_view::npos) {
    text.remove_prefix(at + kThought.size());
  }
  absl::string_view best;
  int best_rank = 0;  // complete blocks have twice the rank of an open one
  std::optional<Fence> open;
  size_t body = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t newline = std::min(text.find('\n', i), text.size());
    const absl::string_view line = text.substr(i, newline - i);
    const size_t next = std::min(newline + 1, text.size());
    const std::optional<Fence> fence = FenceOf(line);
    if (!open && fence) {
      open = fence;
      body = next;
    } else if (open && fence && fence->mark == open->mark &&
               fence->length >= open->length && fence->info.empty()) {
      if (const int rank = 4 * Rank(open->info);
          rank > 0 && rank >= best_rank) {
        best = text.substr(body, i - body);
        best_rank = rank;
      }
      open.reset();
    }
    i = newline + 1;
  }
  if (open && Rank(open->info) > best_rank) {
    best = text.substr(body);
    best_rank = Rank(open->info);
  }
  if (best_rank == 0) return std::nullopt;
  return std::string(best);
}

}  // namespace dice
