// A loaded tiny model and the few steps every test of it takes. Linked by tests only.
#pragma once

#include "base/thread_pool.h"
#include "cache/kv_cache.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/model.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ft::models {

/// A matrix that outlives the workspace.
struct RowCopy {
  std::vector<float> values;
  std::size_t n_cols = 0;

  RowCopy() = default;
  explicit RowCopy(ConstMatrix m) : n_cols(m.n_cols) { add(m); }
  void add(ConstMatrix m) {
    n_cols = m.n_cols;
    for (std::size_t r = 0; r < m.n_rows; ++r) {
      values.insert(values.end(), m.row(r).begin(), m.row(r).end());
    }
  }
  std::size_t size() const { return n_cols == 0 ? 0 : values.size() / n_cols; }
  ConstMatrix view(std::size_t begin, std::size_t n) const {
    return {values.data() + begin * n_cols, n, n_cols, n_cols};
  }
  bool operator==(const RowCopy&) const = default;
};

/// Everything a load needs, kept together.
struct LoadedModel {
  ThreadPool pool;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<Model> model;

  LoadedModel(const std::filesystem::path& folder,
              kernels::Isa isa,
              std::size_t n_threads,
              const LoadOptions& options = {})
      : pool(n_threads),
        backend(kernels::make_cpu_backend(isa, pool)),
        model(load_model(checkpoint::Checkpoint::open(folder), *backend, pool, options)) {}
};

struct Fed {
  RowCopy logits;  // of every row
  RowCopy hidden;  // after the final norm, of every row
};

/// Feeds tokens in chunks and returns all rows.
inline Fed feed(const Model& model, cache::KvCache& cache, TokenSpan tokens, std::size_t chunk) {
  Fed fed;
  const auto workspace = model.new_workspace();
  const auto tap = static_cast<LayerIndex>(model.config().n_layers);
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const TokenSpan part = tokens.subspan(begin, std::min(chunk, tokens.size() - begin));
    const SequenceSlice slice{&cache, part, part.size()};
    const ForwardOutput& output = model.forward({&slice, 1}, {&tap, 1}, {}, *workspace);
    fed.logits.add(output.logits);
    fed.hidden.add(output.taps[0]);
  }
  return fed;
}

inline Token argmax(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Drafted {
  std::vector<Token> tokens;
  RowCopy logits;
};

/// A chain of n greedy drafts on top of rows (hidden, next token); the draft cache keeps only the
/// true rows.
inline Drafted draft(const DraftHead& head,
                     cache::KvCache& cache,
                     ConstMatrix hidden,
                     TokenSpan next_tokens,
                     std::size_t n) {
  Drafted drafted;
  const auto workspace = head.new_workspace();
  const std::size_t true_length = cache.length() + next_tokens.size();
  IndexSets sets;
  std::vector<float> chained;
  for (std::size_t i = 0; i < n; ++i) {
    const Token previous = i == 0 ? 0 : drafted.tokens.back();
    const DraftSlice slice = i == 0
                                 ? DraftSlice{&cache, hidden, next_tokens, &sets}
                                 : DraftSlice{&cache,
                                              {chained.data(), 1, chained.size(), chained.size()},
                                              {&previous, 1},
                                              &sets};
    const DraftStep step = head.step({&slice, 1}, *workspace).front();
    drafted.tokens.push_back(argmax(step.logits));
    drafted.logits.add({step.logits.data(), 1, step.logits.size(), step.logits.size()});
    chained.assign(step.hidden.begin(), step.hidden.end());
  }
  cache.truncate(true_length);
  return drafted;
}

}  // namespace ft::models
