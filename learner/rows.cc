#include "learner/rows.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace dice {
namespace {

// Collects rows and the (query row, visible key rows) of one attention call.
class LayoutBuilder {
 public:
  int64_t AddRow(int32_t id, int64_t position) {
    ids_.push_back(id);
    positions_.push_back(position);
    return static_cast<int64_t>(ids_.size()) - 1;
  }

  // One batch entry: its query rows, its key rows, and who sees whom.
  struct Entry {
    std::vector<int64_t> queries, keys;
    std::vector<std::pair<int64_t, int64_t>> spans;  // flat [q] -> key spans
    std::vector<int64_t> span_start;                 // per query
  };
  // Pads the entries of one call to common lengths.
  void AddCall(const std::vector<Entry>& entries) {
    if (entries.empty()) return;
    const int64_t b = entries.size();
    int64_t lq = 1, lk = 1;
    for (const Entry& e : entries) {
      lq = std::max<int64_t>(lq, e.queries.size());
      lk = std::max<int64_t>(lk, e.keys.size());
    }
    torch::Tensor q = torch::zeros({b, lq}, torch::kInt64);
    torch::Tensor k = torch::zeros({b, lk}, torch::kInt64);
    torch::Tensor mask = torch::zeros({b, lq, lk}, torch::kBool);
    mask.select(2, 0).fill_(true);  // padding must see something
    int64_t* pq = q.data_ptr<int64_t>();
    int64_t* pk = k.data_ptr<int64_t>();
    bool* pm = mask.data_ptr<bool>();
    for (int64_t i = 0; i < b; ++i) {
      const Entry& e = entries[i];
      std::copy(e.keys.begin(), e.keys.end(), pk + i * lk);
      for (size_t j = 0; j < e.queries.size(); ++j) {
        pq[i * lq + j] = e.queries[j];
        places_.emplace_back(e.queries[j],
                             offset_ + i * lq + static_cast<int64_t>(j));
        bool* row = pm + (i * lq + static_cast<int64_t>(j)) * lk;
        row[0] = false;
        const size_t end = j + 1 < e.span_start.size() ? e.span_start[j + 1]
                                                       : e.spans.size();
        for (size_t s = e.span_start[j]; s < end; ++s) {
          std::fill(row + e.spans[s].first, row + e.spans[s].second, true);
        }
      }
    }
    offset_ += b * lq;
    calls_.push_back({q, k, mask});
  }

  RowLayout Build() {
    RowLayout out;
    out.ids = torch::tensor(ids_, torch::kInt64);
    out.positions = torch::tensor(positions_, torch::kInt64);
    out.calls = std::move(calls_);
    std::vector<int64_t> place(ids_.size());
    for (const auto& [row, p] : places_) place[row] = p;
    out.out_index = torch::tensor(place, torch::kInt64);
    return out;
  }

 private:
  std::vector<int64_t> ids_, positions_;
  std::vector<AttentionCall> calls_;
  std::vector<std::pair<int64_t, int64_t>> places_;
  int64_t offset_ = 0;
};

void AddQuery(LayoutBuilder::Entry& e, int64_t row,
              std::initializer_list<std::pair<int64_t, int64_t>> spans) {
  e.span_start.push_back(e.spans.size());
  e.queries.push_back(row);
  for (const auto& s : spans) {
    if (s.first < s.second) e.spans.push_back(s);
  }
}

// The distinct steps of the loss tokens of each block, ascending. Block 0 is
// the one that holds response token 0.
std::vector<std::vector<int32_t>> RoundsOfBlocks(const TrainSequence& s,
                                                 int64_t prompt, int64_t b) {
  std::vector<std::set<int32_t>> rounds;
  const int64_t first = prompt / b;
  for (int64_t i = 0; i < static_cast<int64_t>(s.tokens.size()); ++i) {
    const size_t block = (prompt + i) / b - first;
    if (rounds.size() <= block) rounds.resize(block + 1);
    if (i < s.num_trained && s.steps[i] > 0) rounds[block].insert(s.steps[i]);
  }
  std::vector<std::vector<int32_t>> out;
  for (const auto& r : rounds) out.emplace_back(r.begin(), r.end());
  return out;
}

// The rows of one block: its clean tokens, or one noisy state of it.
struct BlockRows {
  bool noisy = false;
  int32_t step = 0;    // noisy: tokens of this step and later ones are masked
  int64_t begin = 0;   // absolute position of ids[0]
  std::vector<int32_t> ids;
};

// What the losses of `s` depend on, in order: for each block its live noisy
// states, then its clean tokens where a later block is live.
std::vector<BlockRows> BlocksOf(const std::vector<int32_t>& prompt,
                                const TrainSequence& s,
                                const ModelConfig& config) {
  const int64_t b = config.block_size;
  const int64_t n = prompt.size(), total = n + s.tokens.size();
  const auto rounds = RoundsOfBlocks(s, n, b);
  size_t live = rounds.size();
  while (live > 0 && rounds[live - 1].empty()) --live;
  std::vector<BlockRows> out;
  for (size_t j = 0; j < live; ++j) {
    BlockRows clean;
    clean.begin = n / b * b + static_cast<int64_t>(j) * b;
    const int64_t end = std::min(total, clean.begin + b);
    for (int64_t i = clean.begin; i < end; ++i) {
      clean.ids.push_back(i < n ? prompt[i] : s.tokens[i - n]);
    }
    for (const int32_t step : rounds[j]) {
      BlockRows noisy = clean;
      noisy.noisy = true;
      noisy.step = step;
      for (int64_t i = std::max(n, clean.begin); i < end; ++i) {
        if (s.steps[i - n] >= step) {
          noisy.ids[i - clean.begin] =
              static_cast<int32_t>(config.mask_token_id);
        }
      }
      out.push_back(std::move(noisy));
    }
    if (j + 1 < live) out.push_back(std::move(clean));
  }
  return out;
}

// The distinct blocks of a group's responses. A block is known by the clean
// blocks before it and its own ids; node 0 is the shared prompt.
class BlockTrie {
 public:
  // The node of `block` behind the clean node `parent`, and whether it is new.
  std::pair<int, bool> Insert(int parent, const BlockRows& block) {
    const auto [it, is_new] = nodes_.try_emplace(
        std::make_tuple(parent, block.noisy, block.ids),
        static_cast<int>(nodes_.size()) + 1);
    return {it->second, is_new};
  }

 private:
  absl::flat_hash_map<std::tuple<int, bool, std::vector<int32_t>>, int> nodes_;
};

// Adds the rows of one group and their attention entries.
class GroupBuilder {
 public:
  GroupBuilder(const TrainGroup& group, int32_t index,
               const ModelConfig& config, LayoutBuilder& layout)
      : group_(group), index_(index), config_(config), layout_(layout) {
    // The tail of the prompt shares its block with the response; the whole
    // blocks before it are the root of the trie.
    const int64_t b = config.block_size;
    const int64_t shared = static_cast<int64_t>(group.prompt.size()) / b * b;
    for (int64_t i = 0; i < shared; ++i) {
      const int64_t row = layout.AddRow(group.prompt[i], i);
      prompt_.keys.push_back(row);
      AddQuery(prompt_, row, {{0, (i / b + 1) * b}});
    }
  }

  const LayoutBuilder::Entry& prompt() const { return prompt_; }

  // The entry of response `r`: the rows that no earlier response has.
  LayoutBuilder::Entry AddResponse(int32_t r, std::vector<LossPosition>& out) {
    const TrainSequence& s = group_.responses[r];
    const auto blocks = BlocksOf(group_.prompt, s, config_);
    LayoutBuilder::Entry e;
    e.keys = prompt_.keys;
    const int64_t path = blocks.empty() ? 0 : blocks.back().begin;
    std::vector<int64_t> noisy_keys;
    int parent = 0;
    for (const BlockRows& block : blocks) {
      const auto [node, is_new] = trie_.Insert(parent, block);
      if (is_new) first_row_.resize(node + 1);
      const int64_t size = block.ids.size();
      const int64_t own = path + static_cast<int64_t>(noisy_keys.size());
      for (int64_t i = 0; is_new && i < size; ++i) {
        const int64_t row = layout_.AddRow(block.ids[i], block.begin + i);
        if (i == 0) first_row_[node] = row;
        if (block.noisy) {
          noisy_keys.push_back(row);
          AddQuery(e, row, {{0, block.begin}, {own, own + size}});
        } else {
          AddQuery(e, row, {{0, block.begin + size}});
        }
      }
      if (block.noisy) {
        AddLosses(block, first_row_[node], r, out);
      } else {
        // Clean rows lie in e.keys at their absolute positions.
        for (int64_t i = 0; i < size; ++i) {
          e.keys.push_back(first_row_[node] + i);
        }
        parent = node;
      }
    }
    e.keys.insert(e.keys.end(), noisy_keys.begin(), noisy_keys.end());
    return e;
  }

 private:
  void AddLosses(const BlockRows& block, int64_t first_row, int32_t r,
                 std::vector<LossPosition>& out) {
    const TrainSequence& s = group_.responses[r];
    const int64_t prompt = group_.prompt.size();
    for (size_t i = 0; i < block.ids.size(); ++i) {
      const int64_t token = block.begin + static_cast<int64_t>(i) - prompt;
      if (token < 0 || token >= s.num_trained) continue;
      if (s.steps[token] != block.step) continue;
      out.push_back({first_row + static_cast<int64_t>(i), s.tokens[token],
                     index_, r, static_cast<int32_t>(token)});
    }
  }

  const TrainGroup& group_;
  const int32_t index_;
  const ModelConfig& config_;
  LayoutBuilder& layout_;
  LayoutBuilder::Entry prompt_;
  BlockTrie trie_;
  std::vector<int64_t> first_row_;  // per node
};

}  // namespace

int64_t CountLossTokens(const TrainSequence& s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.num_trained; ++i) n += s.steps[i] > 0;
  return n;
}

std::vector<int64_t> RowCosts(const TrainGroup& group,
                              const ModelConfig& config) {
  BlockTrie trie;
  std::vector<int64_t> out;
  for (const TrainSequence& s : group.responses) {
    const int64_t b = config.block_size;
    int64_t rows = out.empty() ? group.prompt.size() / b * b : 0;
    int parent = 0;
    for (const BlockRows& block : BlocksOf(group.prompt, s, config)) {
      const auto [node, is_new] = trie.Insert(parent, block);
      if (is_new) rows += static_cast<int64_t>(block.ids.size());
      if (!block.noisy) parent = node;
    }
    out.push_back(rows);
  }
  return out;
}

TrainRows BuildSharedRows(const std::vector<TrainGroup>& groups,
                          const ModelConfig& config) {
  LayoutBuilder layout;
  std::vector<LayoutBuilder::Entry> prompts, responses;
  TrainRows out;
  for (size_t g = 0; g < groups.size(); ++g) {
    GroupBuilder group(groups[g], static_cast<int32_t>(g), config, layout);
    if (!group.prompt().queries.empty()) prompts.push_back(group.prompt());
    for (size_t r = 0; r < groups[g].responses.size(); ++r) {
      auto entry = group.AddResponse(static_cast<int32_t>(r), out.losses);
      if (!entry.queries.empty()) responses.push_back(std::move(entry));
    }
  }
  // Entries of like size share a call, so that little is padded.
  layout.AddCall(prompts);
  std::stable_sort(responses.begin(), responses.end(),
                   [](const auto& x, const auto& y) {
                     return std::make_pair(x.queries.size(), x.keys.size()) <
                            std::make_pair(y.queries.size(), y.keys.size());
                   });
  constexpr size_t kEntriesPerCall = 16;
  for (size_t i = 0; i < responses.size(); i += kEntriesPerCall) {
    layout.AddCall({responses.begin() + i,
                    responses.begin() +
                        std::min(responses.size(), i + kEntriesPerCall)});
  }
  out.layout = layout.Build();
  return out;
}

TrainRows BuildPlainRows(const std::vector<TrainGroup>& groups,
                         const ModelConfig& config) {
  const int64_t b = config.block_size;
  const int32_t mask_id = static_cast<int32_t>(config.mask_token_id);
  LayoutBuilder builder;
  std::vector<LayoutBuilder::Entry> entries;
  TrainRows out;
  for (size_t g = 0; g < groups.size(); ++g) {
    const TrainGroup& group = groups[g];
    const int64_t prompt = group.prompt.size();
    const int64_t shared = prompt / b * b;
    for (size_t r = 0; r < group.responses.size(); ++r) {
      const TrainSequence& s = group.responses[r];
      const int64_t total = prompt + static_cast<int64_t>(s.tokens.size());
      const auto rounds = RoundsOfBlocks(s, prompt, b);
      size_t most = 0;
      for (const auto& x : rounds) most = std::max(most, x.size());
      for (size_t round = 0; round < most; ++round) {
        LayoutBuilder::Entry e;
        const auto token = [&](int64_t i) {
          return i < prompt ? group.prompt[i] : s.tokens[i - prompt];
        };
        for (int64_t i = 0; i < total; ++i) {
          const int64_t row = builder.AddRow(token(i), i);
          e.keys.push_back(row);
          AddQuery(e, row, {{0, std::min(total, (i / b + 1) * b)}});
        }
        // The noisy copy starts at the block of the prompt's tail, which is
        // known there, as it was to the sampler.
        for (int64_t i = shared; i < total; ++i) {
          const size_t j = (i - shared) / b;
          const int64_t begin = i / b * b;
          const bool live = round < rounds[j].size();
          const int32_t step = live ? rounds[j][round] : 0;
          const int32_t s_i = i < prompt ? 0 : s.steps[i - prompt];
          const int64_t row =
              builder.AddRow(live && s_i >= step ? mask_id : token(i), i);
          e.keys.push_back(row);
          AddQuery(e, row,
                   {{0, begin},
                    {total + begin - shared,
                     total + std::min(total, begin + b) - shared}});
          if (live && s_i == step && i - prompt < s.num_trained) {
            out.losses.push_back({row, token(i), static_cast<int32_t>(g),
                                  static_cast<int32_t>(r),
                                  static_cast<int32_t>(i - prompt)});
          }
        }
        entries.push_back(std::move(e));
      }
    }
  }
  builder.AddCall(entries);
  out.layout = builder.Build();
  return out;
}

}  // namespace dice
