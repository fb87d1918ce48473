// The cache of a draft head, kept true: a row pairs the trunk's hidden t with token t + 1, in order
// and once, whoever drafted. Used by draft source `mtp`.
#pragma once

#include "base/types.h"
#include "cache/kv_cache.h"
#include "models/draft_head.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

namespace ft::speculation {

/// Upkeep is lazy. Hidden rows wait until a chain starts, which feeds all of them in one batch; its
/// last row, the newest pair, gives the first draft. The newest row always waits, since only as a
/// step does it give a draft. When none starts for some rounds the others are appended, key side
/// only; when none starts for long they are left out: feeding what is never asked for would cost
/// more than drafts that miss some context. Between calls the cache holds true rows only.
class HeadHistory {
 public:
  /// Rows per call of the head, whatever the prefill chunk is: its workspace is memory that
  /// streamed experts lack, and keys alone are as fast in small batches.
  static constexpr std::size_t kMaxRows = 64;

  HeadHistory(const models::DraftHead& head,
              std::size_t d_model,
              const cache::CacheOptions& options);

  /// The sequence is now exactly this, its first n_same tokens as in the last call; hidden: [n,
  /// d_model] of positions first … first + n - 1, n may be 0. Drops what no longer holds. Rows that
  /// are missing are left out.
  void observe(TokenSpan sequence, std::size_t first, ConstMatrix hidden, std::size_t n_same = 0);

  /// The work of this history's own steps is reported to `meter`, which must outlive this; null: to
  /// nobody.
  void set_meter(WorkMeter* meter) noexcept { workspace_->set_meter(meter); }

  /// Ends its own steps wherever they wait for weights.
  void set_stop(std::stop_token stop) noexcept { workspace_->set_stop(std::move(stop)); }

  /// Positions begin … end - 1 have no rows.
  struct Gap {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// The positions that a cache has true rows of.
  struct Rows {
    std::size_t origin = 0;  // position of the last row less its index
    std::size_t n = 0;
    std::vector<Gap> gaps;  // between them

    std::size_t end() const noexcept { return origin + n; }
    /// Leaves out those from position `end` on.
    void cut(std::size_t end);
  };
  /// All that it is made of, waiting rows included.
  struct Saved {
    std::unique_ptr<cache::KvCache> cache;
    std::vector<Token> tokens;
    Rows rows;
    std::size_t n_idle = 0;
    std::vector<float> hidden;
    std::size_t hidden_begin = 0;
  };
  /// A copy for a history whose sequence has at most n_tokens in common with this one's: of the
  /// cache no more than that one can use. Not within a chain.
  Saved save(std::size_t n_tokens) const;
  /// All of a history that is not used any more; copies nothing.
  Saved release();
  /// Takes a copy, see save(). False, with nothing changed, if it is that of a head of another
  /// width or context. observe() comes next.
  bool restore(const Saved& saved, std::size_t n_tokens);
  /// restore() that copies nothing.
  bool adopt(Saved& saved);

  TokenSpan tokens() const noexcept { return tokens_; }
  cache::KvCache& cache() noexcept { return *cache_; }

  /// How many drafts a chain may have now: 0 while the newest pair's hidden row is missing.
  std::size_t max_chain() const noexcept;

  /// A chain's first step feeds every waiting row and gives the first draft; needs max_chain() > 0.
  /// A view, for the head, until stepped().
  models::DraftSlice first_rows(models::IndexSets& sets);
  /// A later one feeds a row made of the state the last step left and the draft it gave.
  models::DraftSlice next_rows(Token draft, models::IndexSets& sets);
  /// The head has done the step.
  void stepped(const models::DraftStep& step);
  /// Drops the rows of a step that failed, and those of next_rows(): nothing true is lost.
  void end_chain();

  /// The head's step for this history alone.
  models::DraftStep run(const models::DraftSlice& rows);
  // Rows, run and stepped in one. If they throw, the chain has ended.
  models::DraftStep start_chain(models::IndexSets& sets);
  models::DraftStep continue_chain(Token draft, models::IndexSets& sets);

 private:
  std::size_t hidden_end() const noexcept { return hidden_begin_ + hidden_.size() / d_model_; }
  bool fits(const Saved& saved) const noexcept;
  ConstMatrix kept_hidden(std::size_t begin, std::size_t end) const;
  models::DraftStep go_on(const models::DraftSlice& rows);
  void restart(std::size_t position);
  void leave_out(std::size_t end);
  void make_room(std::size_t n_new);
  void rewind(std::size_t n_tokens_kept, std::size_t n_hidden_kept);
  void keep(ConstMatrix hidden);
  void append(ConstMatrix hidden);

  const models::DraftHead& head_;
  std::size_t d_model_;
  cache::CacheOptions options_;
  std::unique_ptr<cache::KvCache> cache_;
  std::unique_ptr<models::Workspace> workspace_;

  std::vector<Token> tokens_;  // the committed sequence as last seen
  Rows rows_;                  // of the cache
  std::size_t n_idle_ = 0;     // rows observed since the last chain, without those of the prompt
  // The trunk's hidden rows from hidden_begin_ on, contiguous, hidden_begin_ <= rows_.end(). Those
  // from rows_.end() on wait; one before it is kept in case the newest row has to be stepped again.
  std::vector<float> hidden_;
  std::size_t hidden_begin_ = 0;
  // Of a chain.
  std::size_t n_first_ = 0;   // waiting rows of the first step, until it is done
  std::vector<float> state_;  // the head's own view dies at its next use
  Token draft_ = 0;
};

}  // namespace ft::speculation
