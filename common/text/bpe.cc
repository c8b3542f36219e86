#include "common/text/bpe.h"

#include <queue>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace dice {
namespace {

// Up to this many symbols a scan for the best pair beats a heap.
constexpr size_t kShort = 48;

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<Bpe> Bpe::Create(Spec spec) {
  Bpe out;
  out.vocab_ = std::move(spec.vocab);
  for (int b = 0; b < 256; ++b) {
    const char c = static_cast<char>(b);
    out.byte_ids_[b] = out.Find(absl::string_view(&c, 1));
  }
  out.merges_.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const int32_t l = out.Find(left), r = out.Find(right);
    const int32_t id = out.Find(absl::StrCat(left, right));
    if (l < 0 || r < 0 || id < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, " (\"", absl::CHexEscape(left), "\", \"",
                       absl::CHexEscape(right), "\") is not made of tokens"));
    }
    out.merges_.insert_or_assign(PairKey(l, r),
                                 Merge{static_cast<int32_t>(rank), id});
  }
  std::vector<int32_t> ids;
  for (const auto& [bytes, id] : out.vocab_) {
    if (!spec.ignore_merges) {
      ids.clear();
      out.MergeBytes(bytes, &ids);
      if (ids != std::vector<int32_t>{id}) continue;
    }
    out.whole_.emplace(bytes, id);
  }
  return out;
}

int32_t Bpe::Find(absl::string_view bytes) const {
  const auto it = vocab_.find(bytes);
  return it == vocab_.end() ? -1 : it->second;
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::Encode(absl::string_view piece, std::vector<int32_t>* ids) const {
  if (const auto it = whole_.find(piece); it != whole_.end()) {
    ids->push_back(it->second);
    return;
  }
  MergeBytes(piece, ids);
}

void Bpe::MergeBytes(absl::string_view piece, std::vector<int32_t>* ids) const {
  thread_local std::vector<int32_t> symbols;
  symbols.clear();
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.push_back(id);
  }
  if (symbols.size() <= kShort) {
    MergeShort(&symbols);
  } else {
    MergeLong(&symbols);
  }
  ids->insert(ids->end(), symbols.begin(), symbols.end());
}

void Bpe::MergeShort(std::vector<int32_t>* symbols) const {
  std::vector<int32_t>& s = *symbols;
  std::array<const Merge*, kShort> next;  // of the pair (i, i+1)
  for (size_t i = 0; i + 1 < s.size(); ++i) next[i] = FindMerge(s[i], s[i + 1]);
  while (s.size() > 1) {
    size_t best = s.size();
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      if (next[i] == nullptr) continue;
      if (best == s.size() || next[i]->rank < next[best]->rank) best = i;
    }
    if (best == s.size()) return;
    s[best] = next[best]->id;
    s.erase(s.begin() + best + 1);
    for (size_t i = best + 1; i + 1 < s.size(); ++i) next[i] = next[i + 1];
    if (best + 1 < s.size()) next[best] = FindMerge(s[best], s[best + 1]);
    if (best > 0) next[best - 1] = FindMerge(s[best - 1], s[best]);
  }
}

void Bpe::MergeLong(std::vector<int32_t>* symbols) const {
  std::vector<int32_t>& s = *symbols;
  const int n = static_cast<int>(s.size());
  std::vector<int> left(n), right(n);  // a doubly linked list; -1 / n = ends
  for (int i = 0; i < n; ++i) {
    left[i] = i - 1;
    right[i] = i + 1;
  }
  // (rank, position, left id, right id); stale entries fail the id check.
  using Entry = std::tuple<int32_t, int, int32_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
  const auto push = [&](int i) {
    if (i < 0 || right[i] >= n) return;
    const Merge* m = FindMerge(s[i], s[right[i]]);
    if (m != nullptr) heap.emplace(m->rank, i, s[i], s[right[i]]);
  };
  for (int i = 0; i + 1 < n; ++i) push(i);
  while (!heap.empty()) {
    const auto [rank, i, l, r] = heap.top();
    heap.pop();
    if (s[i] != l || right[i] >= n || s[right[i]] != r) continue;
    const int gone = right[i];
    s[i] = FindMerge(l, r)->id;
    s[gone] = -1;
    right[i] = right[gone];
    if (right[i] < n) left[right[i]] = i;
    push(left[i]);
    push(i);
  }
  std::erase(s, -1);
}

}  // namespace dice
