#include "common/text/added_tokens.h"

namespace dice {

void AddedTokens::Add(absl::string_view content, int32_t id) {
  if (content.empty()) return;
  const auto make = [&](uint8_t byte) {
    nodes_.push_back({.byte = byte});
    return static_cast<int32_t>(nodes_.size()) - 1;
  };
  const uint8_t first = static_cast<uint8_t>(content[0]);
  if (roots_[first] < 0) roots_[first] = make(first);
  int32_t at = roots_[first];
  for (const char c : content.substr(1)) {
    const uint8_t byte = static_cast<uint8_t>(c);
    int32_t next = ChildOf(nodes_[at].child, byte);
    if (next < 0) {
      next = make(byte);
      nodes_[next].sibling = nodes_[at].child;
      nodes_[at].child = next;
    }
    at = next;
  }
  nodes_[at].id = id;
}

int32_t AddedTokens::ChildOf(int32_t first, uint8_t byte) const {
  while (first >= 0 && nodes_[first].byte != byte) {
    first = nodes_[first].sibling;
  }
  return first;
}

int32_t AddedTokens::LongestAt(absl::string_view text, size_t* length) const {
  int32_t best = -1;
  int32_t at = roots_[static_cast<uint8_t>(text[0])];
  for (size_t i = 0; at >= 0;) {
    ++i;
    if (nodes_[at].id >= 0) {
      best = nodes_[at].id;
      *length = i;
    }
    if (i == text.size()) break;
    at = ChildOf(nodes_[at].child, static_cast<uint8_t>(text[i]));
  }
  return best;
}

}  // namespace dice
