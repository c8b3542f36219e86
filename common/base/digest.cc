#include "common/base/digest.h"

#include <openssl/sha.h>
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace dice {

std::string Sha256Hex(absl::string_view bytes) {
  unsigned char out[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         out);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<char*>(out), sizeof(out)));
}

std::string Sha256HexOf(std::initializer_list<absl::string_view> fields) {
  std::string all;
  for (absl::string_view f : fields) absl::StrAppend(&all, f.size(), ":", f);
  return Sha256Hex(all);
}

uint64_t Xxh3(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace dice
