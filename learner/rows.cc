#include "learner/rows.h"

#include <algorithm>
#include <set>

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

}  // namespace

int64_t CountLossTokens(const TrainSequence& s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.num_trained; ++i) n += s.steps[i] > 0;
  return n;
}

TrainRows BuildSharedRows(const std::vector<TrainGroup>& groups,
                          const ModelConfig& config) {
  const int64_t b = config.block_size;
  const int32_t mask_id = static_cast<int32_t>(config.mask_token_id);
  LayoutBuilder builder;
  std::vector<LayoutBuilder::Entry> prompts, responses;
  TrainRows out;
  for (size_t g = 0; g < groups.size(); ++g) {
    const TrainGroup& group = groups[g];
    const int64_t prompt = group.prompt.size();
    // The tail of the prompt shares its block with the response, so it is
    // computed per response; the whole blocks before it are shared.
    const int64_t shared = prompt / b * b;
    LayoutBuilder::Entry p;
    for (int64_t i = 0; i < shared; ++i) {
      const int64_t row = builder.AddRow(group.prompt[i], i);
      p.keys.push_back(row);
      AddQuery(p, row, {{0, (i / b + 1) * b}});
    }
    if (shared > 0) prompts.push_back(p);
    for (size_t r = 0; r < group.responses.size(); ++r) {
      const TrainSequence& s = group.responses[r];
      LayoutBuilder::Entry e;
      e.keys = p.keys;
      const int64_t total = prompt + static_cast<int64_t>(s.tokens.size());
      const auto token = [&](int64_t i) {
        return i < prompt ? group.prompt[i] : s.tokens[i - prompt];
      };
      for (int64_t i = shared; i < total; ++i) {
        const int64_t row = builder.AddRow(token(i), i);
        e.keys.push_back(row);
        AddQuery(e, row, {{0, std::min(total, (i / b + 1) * b)}});
      }
      const auto rounds = RoundsOfBlocks(s, prompt, b);
      for (size_t j = 0; j < rounds.size(); ++j) {
        const int64_t begin = shared + static_cast<int64_t>(j) * b;
        const int64_t end = std::min(total, begin + b);
        for (const int32_t step : rounds[j]) {
          const int64_t own = e.keys.size();
          for (int64_t i = begin; i < end; ++i) {
            const int32_t s_i = i < prompt ? 0 : s.steps[i - prompt];
            const int64_t row =
                builder.AddRow(s_i >= step ? mask_id : token(i), i);
            e.keys.push_back(row);
            AddQuery(e, row, {{0, begin}, {own, own + end - begin}});
            if (s_i == step && i - prompt < s.num_trained) {
              out.losses.push_back({row, token(i), static_cast<int32_t>(g),
                                    static_cast<int32_t>(r),
                                    static_cast<int32_t>(i - prompt)});
            }
          }
        }
      }
      responses.push_back(std::move(e));
    }
  }
  // Entries of like size share a call, so that little is padded.
  builder.AddCall(prompts);
  std::stable_sort(responses.begin(), responses.end(),
                   [](const auto& x, const auto& y) {
                     return x.queries.size() < y.queries.size();
                   });
  constexpr size_t kEntriesPerCall = 32;
  for (size_t i = 0; i < responses.size(); i += kEntriesPerCall) {
    builder.AddCall({responses.begin() + i,
                     responses.begin() +
                         std::min(responses.size(), i + kEntriesPerCall)});
  }
  out.layout = builder.Build();
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
