// Which earlier positions a row attends, chosen by the lightning indexer. One choice serves the
// layer that made it and every following layer without an indexer of its own.
#pragma once

#include "kernels/kernels.h"
#include "nn/compute.h"
#include "nn/rope.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::nn {

/// One sequence's rows in one layer of its cache.
struct LatentKeys {
  std::byte* keys = nullptr;        // stride key_dim
  std::byte* index_keys = nullptr;  // stride head_dim of the indexer; null on layers without one
  DType dtype = DType::kF32;        // of both: kF32 or kBF16
};

struct IndexerShape {
  std::size_t n_heads = 0;
  std::size_t head_dim = 0;  // >= rotary width; the first dims are rotated
  std::size_t top_k = 0;     // > 0
};

/// Scores that choosing for `n_rows` rows that see up to `n_positions` holds at once.
std::size_t score_values(std::size_t n_rows, std::size_t n_positions) noexcept;

/// Query row i is row first_query + i of the Rows given to reset(). `caches` has one entry per run
/// of those.
class Selection {
 public:
  /// Every query row attends all positions up to its own.
  void reset(const Rows& rows, std::size_t first_query);
  std::size_t size() const noexcept { return sets_.size(); }
  /// Forgets the first n query rows.
  void drop_front(std::size_t n);
  /// Whether some row sees more than top_k positions, so that it has to choose.
  bool has_choice(std::size_t top_k) const noexcept;
  /// Every row that sees more than top_k positions attends the top_k with the best indexer scores,
  /// ties to the lower position. q: [size(), n_heads * head_dim] rotated, gate: [size(), n_heads].
  void choose(Compute compute,
              const IndexerShape& shape,
              ConstMatrix q,
              ConstMatrix gate,
              std::span<const LatentKeys> caches);
  /// Makes one row attend exactly `positions` (ascending), which must outlive the selection's use.
  void fix(std::size_t query, std::span<const std::int32_t> positions) noexcept;
  /// What one row attends, ascending.
  void positions(std::size_t query, std::vector<std::int32_t>& out) const;
  /// The sets over one layer's keys; dies at the next call.
  std::span<const kernels::KeySet> over(std::span<const LatentKeys> caches) noexcept;

 private:
  std::vector<kernels::KeySet> sets_;     // per query row; over() fills in the keys
  std::vector<std::size_t> n_visible_;    // per query row
  std::vector<std::uint32_t> sequences_;  // per query row: index into caches
  std::vector<std::int32_t> chosen_;      // [size(), top_k]
  std::vector<kernels::KeySet> index_sets_;
  ScratchMatrix scores_;
};

}  // namespace ft::nn
