// Finds tokens that stand outside the merges (<|im_end|>, <|mask|>) in text.
// Immutable after Add; thread-safe then.
#ifndef DICE_COMMON_TEXT_ADDED_TOKENS_H_
#define DICE_COMMON_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace dice {

class AddedTokens {
 public:
  struct Hit {
    size_t begin;
    size_t end;
    int32_t id;
  };

  AddedTokens() { roots_.fill(-1); }
  // Empty content is ignored; the later of two equal contents wins.
  void Add(absl::string_view content, int32_t id);
  bool empty() const { return nodes_.empty(); }
  // Calls `gap(text)` for each stretch without a token (never empty) and
  // `token(id)` for each token, in order: leftmost, then longest.
  template <typename Gap, typename Token>
  void Scan(absl::string_view text, Gap&& gap, Token&& token) const {
    size_t done = 0, i = 0;
    while (!nodes_.empty() && i < text.size()) {
      size_t length = 0;
      const int32_t id = LongestAt(text.substr(i), &length);
      if (id < 0) {
        ++i;
        continue;
      }
      if (i > done) gap(text.substr(done, i - done));
      token(id);
      done = i += length;
    }
    if (done < text.size()) gap(text.substr(done));
  }

 private:
  struct Node {
    uint8_t byte;
    int32_t child = -1;    // first child
    int32_t sibling = -1;  // next child of the same parent
    int32_t id = -1;       // token that ends here
  };
  int32_t LongestAt(absl::string_view text, size_t* length) const;
  int32_t ChildOf(int32_t first, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;  // node of a token's first byte; -1 none
};

}  // namespace dice

#endif  // DICE_COMMON_TEXT_ADDED_TOKENS_H_
