#include "speculation/head_history.h"

#include "base/error.h"
#include "speculation/common_prefix.h"

#include <algorithm>
#include <utility>

namespace ft::speculation {
namespace {

// Rows that may wait. More than the rows of a usual round, so that a source that proposes every
// round never appends; few enough that the batch of a late proposal is no burden.
constexpr std::size_t kMaxWaiting = 32;
static_assert(kMaxWaiting <= HeadHistory::kMaxRows);

// Rows without a chain after which rows are left out rather than appended.
constexpr std::size_t kMaxIdle = 64;

/// The rows that hold for a sequence with so many tokens in common, as far as the cache can go
/// back; without what a failed append may have left.
std::unique_ptr<cache::KvCache> copy_front(const cache::KvCache& cache,
                                           HeadHistory::Rows& rows,
                                           std::size_t n_tokens) {
  HeadHistory::Rows front = rows;
  front.cut(std::max<std::size_t>(n_tokens, 1) - 1);  // a row also needs the next token
  if (cache.length() - front.n <= cache.rollback_limit()) rows = std::move(front);
  return cache.clone_front(rows.n);
}

ConstMatrix rows_of(ConstMatrix matrix, std::size_t begin, std::size_t n) {
  return {matrix.data + begin * matrix.stride, n, matrix.n_cols, matrix.stride};
}

}  // namespace

HeadHistory::HeadHistory(const models::DraftHead& head,
                         std::size_t d_model,
                         const cache::CacheOptions& options)
    : head_(head),
      d_model_(d_model),
      options_(options),
      cache_(head.new_cache(options)),
      workspace_(head.new_workspace()) {}

void HeadHistory::observe(TokenSpan sequence,
                          std::size_t first,
                          ConstMatrix hidden,
                          std::size_t n_same) {
  FT_CHECK(hidden.n_rows == 0 || hidden.n_cols == d_model_);
  FT_CHECK(hidden.n_rows == 0 || first + hidden.n_rows <= sequence.size());
  const std::size_t n_common = common_prefix(tokens_, sequence, n_same);
  rewind(n_common, hidden.n_rows > 0 ? std::min(n_common, first) : n_common);
  tokens_.resize(n_common);
  tokens_.insert(
      tokens_.end(), sequence.begin() + static_cast<std::ptrdiff_t>(n_common), sequence.end());
  if (hidden.n_rows == 0) return;
  if (first > hidden_end()) leave_out(first);
  n_idle_ = hidden.n_rows > kMaxWaiting ? 0 : n_idle_ + hidden.n_rows;
  if (hidden_end() - rows_.end() + hidden.n_rows <= kMaxWaiting) {
    keep(hidden);
    return;
  }
  if (n_idle_ > kMaxIdle) {
    make_room(hidden.n_rows);
    keep(hidden);
    return;
  }
  append(kept_hidden(rows_.end(), hidden_end()));
  append(rows_of(hidden, 0, hidden.n_rows - 1));
  hidden_.clear();
  hidden_begin_ = rows_.end();
  keep(rows_of(hidden, hidden.n_rows - 1, 1));
}

// Leaves out waiting rows, half of them at least: not every call moves those that stay.
void HeadHistory::make_room(std::size_t n_new) {
  const std::size_t n_kept = std::min(kMaxWaiting / 2, kMaxWaiting - n_new);
  const std::size_t end = hidden_end() - std::min(n_kept, hidden_end() - rows_.end());
  const ConstMatrix rest = kept_hidden(end, hidden_end());
  const std::vector<float> kept(rest.data, rest.data + rest.n_rows * rest.n_cols);
  leave_out(end);
  hidden_ = kept;
}

// The next row is that of position `end`; waiting rows are dropped.
void HeadHistory::leave_out(std::size_t end) {
  const std::size_t begin = rows_.end();
  if (rows_.n > 0 && end > begin) {
    if (rows_.gaps.empty() || rows_.gaps.back().end != begin) rows_.gaps.push_back({begin, begin});
    rows_.gaps.back().end = end;
  }
  rows_.origin += end - begin;
  hidden_.clear();
  hidden_begin_ = end;
}

void HeadHistory::Rows::cut(std::size_t end_position) {
  while (!gaps.empty() && end_position < gaps.back().end) {
    const Gap gap = gaps.back();
    gaps.pop_back();
    origin -= gap.end - gap.begin;
    n = gap.begin - origin;
  }
  n -= std::min(end() - std::min(end(), end_position), n);
}

HeadHistory::Saved HeadHistory::save(std::size_t n_tokens) const {
  Rows rows = rows_;
  std::unique_ptr<cache::KvCache> copy = copy_front(*cache_, rows, n_tokens);
  return {std::move(copy), tokens_, std::move(rows), n_idle_, hidden_, hidden_begin_};
}

HeadHistory::Saved HeadHistory::release() {
  end_chain();
  return {std::move(cache_),
          std::move(tokens_),
          std::move(rows_),
          n_idle_,
          std::move(hidden_),
          hidden_begin_};
}

bool HeadHistory::fits(const Saved& saved) const noexcept {
  return saved.cache->max_tokens() == cache_->max_tokens() && saved.hidden.size() % d_model_ == 0;
}

bool HeadHistory::restore(const Saved& saved, std::size_t n_tokens) {
  if (!fits(saved)) return false;
  Rows rows = saved.rows;
  std::unique_ptr<cache::KvCache> cache = copy_front(*saved.cache, rows, n_tokens);
  Saved copy{std::move(cache),
             saved.tokens,
             std::move(rows),
             saved.n_idle,
             saved.hidden,
             saved.hidden_begin};
  return adopt(copy);
}

bool HeadHistory::adopt(Saved& saved) {
  if (!fits(saved)) return false;
  cache_ = std::move(saved.cache);
  tokens_ = std::move(saved.tokens);
  rows_ = std::move(saved.rows);
  n_idle_ = saved.n_idle;
  hidden_ = std::move(saved.hidden);
  hidden_begin_ = saved.hidden_begin;
  return true;
}

std::size_t HeadHistory::max_chain() const noexcept {
  if (tokens_.size() < 2 || hidden_.empty() || hidden_end() != tokens_.size() - 1) return 0;
  if (hidden_end() == rows_.end() && cache_->rollback_limit() == 0) return 0;
  const std::size_t n_free =
      cache_->max_tokens() - std::min(cache_->max_tokens(), hidden_end() - rows_.origin - 1);
  return std::min(n_free, cache_->rollback_limit() + 1);
}

models::DraftSlice HeadHistory::first_rows(models::IndexSets& sets) {
  FT_CHECK(max_chain() > 0);
  const std::size_t newest = hidden_end() - 1;
  if (rows_.end() > newest) {  // it was stepped before and its draft came to nothing
    rows_.n = newest - rows_.origin;
    cache_->truncate(rows_.n);
  }
  const std::size_t begin = rows_.end();
  n_idle_ = 0;
  n_first_ = newest + 1 - begin;
  return {cache_.get(),
          kept_hidden(begin, newest + 1),
          TokenSpan(tokens_).subspan(begin + 1, n_first_),
          &sets};
}

models::DraftSlice HeadHistory::next_rows(Token draft, models::IndexSets& sets) {
  draft_ = draft;
  return {cache_.get(), {state_.data(), 1, d_model_, d_model_}, {&draft_, 1}, &sets};
}

void HeadHistory::stepped(const models::DraftStep& step) {
  state_.assign(step.hidden.begin(), step.hidden.end());
  if (n_first_ == 0) return;
  rows_.n += std::exchange(n_first_, 0);
  hidden_.erase(hidden_.begin(), hidden_.end() - static_cast<std::ptrdiff_t>(d_model_));
  hidden_begin_ = rows_.end() - 1;
}

void HeadHistory::end_chain() {
  n_first_ = 0;
  if (cache_->length() > rows_.n) cache_->truncate(rows_.n);
}

models::DraftStep HeadHistory::start_chain(models::IndexSets& sets) {
  return go_on(first_rows(sets));
}

models::DraftStep HeadHistory::continue_chain(Token draft, models::IndexSets& sets) {
  return go_on(next_rows(draft, sets));
}

models::DraftStep HeadHistory::run(const models::DraftSlice& rows) {
  return head_.step({&rows, 1}, *workspace_).front();
}

models::DraftStep HeadHistory::go_on(const models::DraftSlice& rows) {
  try {
    const models::DraftStep step = run(rows);
    stepped(step);
    return step;
  } catch (...) {
    end_chain();
    throw;
  }
}

ConstMatrix HeadHistory::kept_hidden(std::size_t begin, std::size_t end) const {
  return {hidden_.data() + (begin - hidden_begin_) * d_model_, end - begin, d_model_, d_model_};
}

// Forgets everything; the next row is that of `position`.
void HeadHistory::restart(std::size_t position) {
  if (cache_->length() > 0) cache_ = head_.new_cache(options_);
  rows_.origin = position;
  rows_.n = 0;
  rows_.gaps.clear();
  hidden_.clear();
  hidden_begin_ = position;
}

// A hidden row holds as long as the tokens up to its own do; a row of the cache also needs the next
// token.
void HeadHistory::rewind(std::size_t n_tokens_kept, std::size_t n_hidden_kept) {
  const std::size_t n_pairs_kept =
      std::min(n_hidden_kept, std::max<std::size_t>(n_tokens_kept, 1) - 1);
  const std::size_t n_before = rows_.n;
  rows_.cut(n_pairs_kept);
  if (rows_.end() > n_pairs_kept || n_before - rows_.n > cache_->rollback_limit()) {
    restart(n_pairs_kept);
    return;
  }
  if (rows_.n < n_before) cache_->truncate(rows_.n);
  if (hidden_end() > n_hidden_kept) {
    hidden_.resize(n_hidden_kept > hidden_begin_ ? (n_hidden_kept - hidden_begin_) * d_model_ : 0);
  }
  if (hidden_begin_ > rows_.end()) {
    hidden_.clear();
    hidden_begin_ = rows_.end();
  }
}

void HeadHistory::keep(ConstMatrix hidden) {
  for (std::size_t i = 0; i < hidden.n_rows; ++i) {
    const std::span<const float> row = hidden.row(i);
    hidden_.insert(hidden_.end(), row.begin(), row.end());
  }
}

void HeadHistory::append(ConstMatrix hidden) {
  end_chain();  // also what an append that failed may have left
  for (std::size_t begin = 0; begin < hidden.n_rows; begin += kMaxRows) {
    const std::size_t n = std::min(kMaxRows, hidden.n_rows - begin);
    head_.append(*cache_,
                 rows_of(hidden, begin, n),
                 TokenSpan(tokens_).subspan(rows_.end() + 1, n),
                 *workspace_);
    rows_.n += n;
  }
}

}  // namespace ft::speculation
