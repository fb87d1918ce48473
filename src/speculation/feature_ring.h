// The context of a block drafter: one row of target features per committed position, as far back as
// a window. Used by sources that tap several layers (EAGLE-3, DFlash, DSpark and their kind).
#pragma once

#include "base/types.h"
#include "speculation/draft_source.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <span>
#include <vector>

namespace ft::speculation {

/// Row p is [tap_1(p) | ... | tap_n(p)], the taps in the order of the source's taps(). A projection
/// of it is the drafter's. The rows are those of contiguous positions begin() ... end() - 1, each
/// made from exactly the committed tokens up to its own. Rows that were never shown are missing,
/// not made up: after a gap the ring starts anew behind it. A copy is a snapshot.
class FeatureRing {
 public:
  /// window: rows it keeps, at least 1; memory for twice as many.
  FeatureRing(std::size_t n_taps, std::size_t d_model, std::size_t window);

  /// The sequence is now exactly this. Drops rows of positions that are no longer those of the
  /// sequence, and takes up the new ones. Throws LogicError for rows of another shape; then nothing
  /// has changed. Amortised cost: one copy of the new rows, or two.
  void observe(const Committed& committed);

  /// Whether the two have the same taps and window: then one can be assigned to the other.
  bool has_shape_of(const FeatureRing& other) const noexcept {
    return n_taps_ == other.n_taps_ && d_model_ == other.d_model_ && window_ == other.window_;
  }

  TokenSpan tokens() const noexcept { return tokens_; }
  std::size_t begin() const noexcept { return begin_; }
  std::size_t end() const noexcept { return begin_ + n_rows_; }
  std::size_t size() const noexcept { return n_rows_; }
  std::size_t n_cols() const noexcept { return n_taps_ * d_model_; }

  /// Of one position it has. Dies at the next observe().
  std::span<const float> row(std::size_t position) const;
  /// [n, n_cols()] of positions first ... first + n - 1, all of which it has; contiguous. Dies at
  /// the next observe().
  ConstMatrix rows(std::size_t first, std::size_t n) const;
  /// [n, d_model]: the part of one tap.
  ConstMatrix tap(std::size_t index, std::size_t first, std::size_t n) const;

 private:
  void check(const Committed& committed) const;
  void rewind(std::size_t end);
  void make_room();

  std::size_t n_taps_;
  std::size_t d_model_;
  std::size_t window_;
  std::vector<Token> tokens_;  // the committed sequence as last seen
  std::size_t begin_ = 0;      // position of the first row
  std::size_t n_rows_ = 0;     // at most window_
  // Room for 2 * window_ rows: the window slides through it and is moved back to the start when it
  // meets the end, so that any range of it is one matrix.
  std::vector<float> values_;
  std::size_t offset_ = 0;  // row of values_ where the window begins
};

}  // namespace ft::speculation
