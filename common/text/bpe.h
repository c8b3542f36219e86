// Byte-pair merging over raw bytes. Immutable; thread-safe.
#ifndef DICE_COMMON_TEXT_BPE_H_
#define DICE_COMMON_TEXT_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dice {

class Bpe {
 public:
  struct Spec {
    absl::flat_hash_map<std::string, int32_t> vocab;          // bytes -> id
    std::vector<std::pair<std::string, std::string>> merges;  // by rank
    // A piece that is a token is that token, whatever the merges say.
    bool ignore_merges = false;
  };
  // INVALID_ARGUMENT: a merge names bytes that are no token.
  static absl::StatusOr<Bpe> Create(Spec spec);

  // Appends the ids of `piece`. A byte that is no token gives nothing. Time
  // O(n log n) in the piece's length.
  void Encode(absl::string_view piece, std::vector<int32_t>* ids) const;
  // The id of a token by its bytes; -1 if there is none.
  int32_t Find(absl::string_view bytes) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void MergeShort(std::vector<int32_t>* symbols) const;
  void MergeLong(std::vector<int32_t>* symbols) const;
  void MergeBytes(absl::string_view piece, std::vector<int32_t>* ids) const;

  std::array<int32_t, 256> byte_ids_{};
  absl::flat_hash_map<std::string, int32_t> vocab_;
  // Tokens that their own merges rebuild (or all: ignore_merges), so that a
  // piece that is one of them needs no merging.
  absl::flat_hash_map<std::string, int32_t> whole_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // (left << 32 | right)
};

}  // namespace dice

#endif  // DICE_COMMON_TEXT_BPE_H_
