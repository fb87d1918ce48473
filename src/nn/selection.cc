#include "nn/selection.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ft::nn {
namespace {

/// Scores held at a time: 16 MiB. A prefill chunk over a long context is scored in pieces of rows.
constexpr std::size_t kMaxScores = std::size_t{4} << 20;

}  // namespace

void Selection::reset(const Rows& rows, std::size_t first_query) {
  FT_CHECK(first_query <= rows.size());
  const std::size_t n = rows.size() - first_query;
  sets_.assign(n, {});
  n_visible_.resize(n);
  sequences_.resize(n);
  for (std::size_t sequence = 0; sequence < rows.runs().size(); ++sequence) {
    const Run& run = rows.runs()[sequence];
    for (std::size_t i = 0; i < run.n_rows; ++i) {
      const std::size_t row = run.first_row + i;
      if (row < first_query) continue;
      n_visible_[row - first_query] = run.first_position + i + 1;
      sets_[row - first_query].n = run.first_position + i + 1;
      sequences_[row - first_query] = static_cast<std::uint32_t>(sequence);
    }
  }
}

void Selection::drop_front(std::size_t n) {
  const auto count = static_cast<std::ptrdiff_t>(n);
  sets_.erase(sets_.begin(), sets_.begin() + count);
  n_visible_.erase(n_visible_.begin(), n_visible_.begin() + count);
  sequences_.erase(sequences_.begin(), sequences_.begin() + count);
}

std::size_t score_values(std::size_t n_rows, std::size_t n_positions) noexcept {
  return std::max(n_positions, std::min(n_rows * n_positions, kMaxScores));
}

bool Selection::has_choice(std::size_t top_k) const noexcept {
  return std::any_of(
      n_visible_.begin(), n_visible_.end(), [top_k](std::size_t n) { return n > top_k; });
}

void Selection::choose(Compute compute,
                       const IndexerShape& shape,
                       ConstMatrix q,
                       ConstMatrix gate,
                       std::span<const LatentKeys> caches) {
  FT_CHECK(q.n_rows == size() && gate.n_rows == size());
  const std::size_t top_k = shape.top_k;
  // 1/sqrt(head_dim) of the scores and 1/sqrt(n_heads) of the gate: relu lets a positive factor
  // through.
  const auto scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim * shape.n_heads)));
  chosen_.resize(size() * top_k);
  for (std::size_t begin = 0; begin < size();) {
    if (n_visible_[begin] <= top_k) {
      ++begin;
      continue;
    }
    // The longest stretch of choosing rows whose scores fit; one row always does.
    index_sets_.clear();
    std::size_t max_n = 0;
    std::size_t end = begin;
    for (; end < size() && n_visible_[end] > top_k; ++end) {
      const std::size_t n = std::max(max_n, n_visible_[end]);
      if (end > begin && n * (end - begin + 1) > kMaxScores) break;
      max_n = n;
      const LatentKeys& cache = caches[sequences_[end]];
      index_sets_.push_back({cache.index_keys, nullptr, n_visible_[end], cache.dtype});
    }
    const MutableMatrix scores = scores_.shape(end - begin, max_n);
    compute.backend.index_scores({.q = rows_of(q, begin, end - begin),
                                  .gate = rows_of(gate, begin, end - begin),
                                  .sets = index_sets_,
                                  .n_heads = shape.n_heads,
                                  .head_dim = shape.head_dim,
                                  .scale = scale,
                                  .scores = scores});
    std::int32_t* chosen = chosen_.data() + begin * top_k;
    compute.backend.top_k({.scores = scores,
                           .n = std::span(n_visible_).subspan(begin, end - begin),
                           .k = top_k,
                           .positions = chosen});
    for (std::size_t i = begin; i < end; ++i) {
      fix(i, {chosen + (i - begin) * top_k, top_k});
    }
    begin = end;
  }
}

void Selection::fix(std::size_t query, std::span<const std::int32_t> positions) noexcept {
  sets_[query].positions = positions.data();
  sets_[query].n = positions.size();
}

void Selection::positions(std::size_t query, std::vector<std::int32_t>& out) const {
  const kernels::KeySet& set = sets_[query];
  out.resize(set.n);
  if (set.positions != nullptr) {
    std::copy_n(set.positions, set.n, out.begin());
  } else {
    std::iota(out.begin(), out.end(), 0);
  }
}

std::span<const kernels::KeySet> Selection::over(std::span<const LatentKeys> caches) noexcept {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    sets_[i].keys = caches[sequences_[i]].keys;
    sets_[i].dtype = caches[sequences_[i]].dtype;
  }
  return sets_;
}

}  // namespace ft::nn
