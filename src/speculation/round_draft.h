// The half of a round that drafts, in pieces: rounds of several sequences take the steps of the
// model's next-token head together, as they share the trunk's forward (forward_share.h).
#pragma once

#include "base/clock.h"
#include "models/draft_head.h"
#include "speculation/decode_round.h"
#include "speculation/draft_source.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

namespace ft::speculation {

/// What begin_round() does.
class RoundDraft {
 public:
  /// `state` must outlive it. Throws Cancelled.
  RoundDraft(const RoundState& state, std::span<const Proposer> proposers, std::stop_token stop);

  /// Drafts as far as it goes without the head: what the head is to do then, a view until take().
  /// nullopt: nothing, for it is done or has failed.
  std::optional<models::DraftSlice> next() noexcept;
  /// Of the head's time `step_us` is to be paid by this round.
  void take(const models::DraftStep& step, std::int64_t step_us) noexcept;
  /// Drafts to the end without company. What a source has begun it begins anew.
  void finish_alone() noexcept;

  /// When it is done, once. Throws what went wrong on the way; then cache, tokens and sources are
  /// as before.
  DraftedRound result();

 private:
  template <typename Piece>
  void run(Piece piece) noexcept;
  void draft_on();
  bool begin_next();
  DraftRequest request() const;
  void add(Draft draft);
  void drop_running() noexcept;

  const RoundState* state_;
  std::vector<Proposer> proposers_;
  std::stop_token stop_;
  bool wants_laws_;
  bool is_alone_ = false;
  std::size_t room_;
  std::size_t n_done_ = 0;          // proposers
  std::size_t n_asked_ = 0;         // of the next one
  HeadDrafter* running_ = nullptr;  // that of the next proposer, begun
  std::optional<models::DraftSlice> wanted_;
  DraftedRound round_;
  std::exception_ptr error_;
};

/// What steps of several rounds run on.
struct HeadContext {
  const models::DraftHead* head = nullptr;  // null: no source steps one
  models::Workspace* workspace = nullptr;   // the head's
  const Clock& clock;
  std::size_t max_rows = 0;  // of a step; one round's alone may have more
};

/// Takes all rounds to the end of their drafts, with one pass of the head for a step of all that
/// want one; they pay for it in equal parts. A step that fails is repeated by each for itself. A
/// failure is the round's whose it is: see RoundDraft::result().
void draft_together(const HeadContext& context,
                    std::span<RoundDraft* const> rounds,
                    const std::stop_token& stop);

}  // namespace ft::speculation
