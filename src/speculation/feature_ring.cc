#include "speculation/feature_ring.h"

#include "base/error.h"
#include "speculation/common_prefix.h"

#include <algorithm>

namespace ft::speculation {

FeatureRing::FeatureRing(std::size_t n_taps, std::size_t d_model, std::size_t window)
    : n_taps_(n_taps), d_model_(d_model), window_(window) {
  FT_CHECK(n_taps > 0 && d_model > 0 && window > 0);
  values_.resize(2 * window_ * n_cols());
}

void FeatureRing::check(const Committed& committed) const {
  if (committed.n_rows == 0) return;
  FT_CHECK(committed.taps.size() == n_taps_);
  FT_CHECK(committed.first_position + committed.n_rows <= committed.sequence.size());
  for (const ConstMatrix& tap : committed.taps) {
    FT_CHECK(tap.n_rows == committed.n_rows && tap.n_cols == d_model_);
  }
}

void FeatureRing::observe(const Committed& committed) {
  check(committed);
  const TokenSpan now = committed.sequence;
  const std::size_t n_common = common_prefix(tokens_, now, committed.n_same);
  tokens_.resize(n_common);
  tokens_.insert(tokens_.end(), now.begin() + static_cast<std::ptrdiff_t>(n_common), now.end());
  rewind(n_common);
  if (committed.n_rows == 0) return;
  rewind(committed.first_position);
  if (end() != committed.first_position) {
    n_rows_ = 0;
    begin_ = committed.first_position;
  }
  const std::size_t n_skipped = committed.n_rows - std::min(committed.n_rows, window_);
  if (n_skipped > 0) {  // none of the rows before them stays
    n_rows_ = 0;
    begin_ = committed.first_position + n_skipped;
  }
  for (std::size_t i = n_skipped; i < committed.n_rows; ++i) {
    make_room();
    float* out = values_.data() + (offset_ + n_rows_) * n_cols();
    for (const ConstMatrix& tap : committed.taps) {
      out = std::copy_n(tap.row(i).begin(), d_model_, out);
    }
    ++n_rows_;
  }
}

// A row holds as long as the tokens up to its own do.
void FeatureRing::rewind(std::size_t end) {
  if (end <= begin_) {
    n_rows_ = 0;
    begin_ = end;
  } else {
    n_rows_ = std::min(n_rows_, end - begin_);
  }
}

void FeatureRing::make_room() {
  if (n_rows_ == window_) {
    ++offset_;
    ++begin_;
    --n_rows_;
  }
  if (n_rows_ == 0) offset_ = 0;
  if (offset_ + n_rows_ < 2 * window_) return;
  const auto first = values_.begin() + static_cast<std::ptrdiff_t>(offset_ * n_cols());
  std::copy_n(first, n_rows_ * n_cols(), values_.begin());
  offset_ = 0;
}

std::span<const float> FeatureRing::row(std::size_t position) const {
  return rows(position, 1).row(0);
}

ConstMatrix FeatureRing::rows(std::size_t first, std::size_t n) const {
  FT_CHECK(first >= begin_ && first <= end() && n <= end() - first);
  return {values_.data() + (offset_ + first - begin_) * n_cols(), n, n_cols(), n_cols()};
}

ConstMatrix FeatureRing::tap(std::size_t index, std::size_t first, std::size_t n) const {
  FT_CHECK(index < n_taps_);
  ConstMatrix out = rows(first, n);
  out.data += index * d_model_;
  out.n_cols = d_model_;
  return out;
}

}  // namespace ft::speculation
