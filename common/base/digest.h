// Digests. Sha256 where an adversary may choose the bytes (cache keys, task and
// weights identity), Xxh3 where only accidents matter (transfer chunks).
#ifndef DICE_COMMON_BASE_DIGEST_H_
#define DICE_COMMON_BASE_DIGEST_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace dice {

// 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);
// Digest of a list of fields: lengths are hashed too, so {"ab","c"} and
// {"a","bc"} differ.
std::string Sha256HexOf(std::initializer_list<absl::string_view> fields);
uint64_t Xxh3(absl::string_view bytes);

}  // namespace dice

#endif  // DICE_COMMON_BASE_DIGEST_H_
