// One round of decoding, with or without drafts: the only place that knows the order
// propose → forward → verify → truncate → append → observe. The two halves around the forward can
// be had apart, for a forward that several sequences share.
#pragma once

#include "base/clock.h"
#include "base/types.h"
#include "base/work_meter.h"
#include "cache/kv_cache.h"
#include "experts/expert_store.h"
#include "models/model.h"
#include "sampling/sampler.h"
#include "sampling/verify.h"
#include "speculation/draft_source.h"
#include "speculation/forward_share.h"
#include "speculation/round_planner.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace ft::speculation {

/// The session's state as a round sees it. Invariant at entry and exit of a round: tokens.size() ==
/// cache.length() + 1. During prefill (prefill.h) `tokens` holds the prompt alone and the cache is
/// shorter.
struct RoundState {
  const models::Model* model = nullptr;
  models::Workspace* workspace = nullptr;
  cache::KvCache* cache = nullptr;
  std::vector<Token>* tokens = nullptr;  // committed; the last one is pending: sampled, not yet fed
  std::size_t n_prompt = 0;
  sampling::Sampler* sampler = nullptr;
  std::span<DraftSource* const> sources;  // all observe
  TokenSpan stop_tokens;
  sampling::AcceptMode accept = sampling::AcceptMode::kMatch;
  std::uint64_t n_rounds = 0;  // so far: tells the draws of one round from those of the next
  std::size_t n_shown = 0;     // leading tokens that the sources have seen as they are;
                               // whoever takes tokens back lowers it
  const Clock* clock = nullptr;
  const experts::ExpertStore* store = nullptr;  // null: experts are resident
  WorkMeter* meter = nullptr;                   // of the request; null: nobody measures
  /// Asked for a draft if the window has none: no row is fed for it, the forward may read ahead for
  /// it.
  DraftSource* hinter = nullptr;  // null: nobody is
};

/// A source, and how many drafts it is asked for.
struct Proposer {
  DraftSource* source = nullptr;
  std::size_t max_drafts = 0;
};

struct RoundResult {
  /// By proposer, after all limits. The drafts stand one behind the other.
  using Part = RoundOutcome::Part;
  std::vector<Part> parts;
  std::vector<Token> drafts;
  std::vector<Token> hints;  // not fed: tokens that may come next
  std::size_t n_accepted = 0;
  std::size_t n_committed = 0;  // n_accepted + 1: the tokens appended by this round
  ConstMatrix
      logits;  // [n_committed, n_vocab]: row i chose the i-th of them; dies at the next forward
  std::int64_t draft_us = 0;
  std::int64_t forward_us = 0;  // its share of it, with the time that its hints took
  std::int64_t verify_us = 0;
  std::int64_t observe_us = 0;
  std::int64_t stall_us = 0;        // of forward_us: computing waited for experts
  std::uint64_t missing_bytes = 0;  // of the experts that the forward had to read
};

/// What the planner learns from a round.
RoundOutcome outcome_of(const RoundResult& result);

/// What drafts were drawn from, in ratio mode.
struct DraftLaws {
  std::vector<std::vector<float>> of_parts;
  std::vector<std::span<const float>> of_drafts;  // into them; empty: not a draw

  void add(Draft draft, std::size_t n_vocab);
};

/// A round that has drafted and waits for its forward. Nothing of the session has changed, so it
/// may wait any time, or be dropped.
struct DraftedRound {
  RoundResult result;  // parts, drafts, hints and their times
  DraftLaws laws;
  std::vector<Token> window;       // the pending token and the drafts
  std::vector<LayerIndex> layers;  // that the sources want to see
};

/// proposers: who drafts, each behind what those before it drafted; empty for none. All together
/// are cut to the cache's rollback limit and free positions. Throws Cancelled and what propose
/// throws; then cache, tokens and sources are as before. A source that returns more than asked, or
/// an id outside the vocabulary, fails the request with Error.
DraftedRound begin_round(const RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop);

/// What the round wants of a forward; a view of both.
ForwardPart part_of(const RoundState& state, const DraftedRound& round) noexcept;

/// After the forward, with what it made of the round's part. Throws what verify throws; then cache,
/// tokens and sources are as before begin_round() (a cache that cannot go back keeps its new
/// length, and the next round refuses the broken invariant). If a source's observe throws, the
/// round stands and every other source has seen it; the exception is passed on.
RoundResult end_round(RoundState& state, DraftedRound round, const ForwardShare& share);

/// The whole round with a forward of its own. Throws what the halves and forward throw, with the
/// same promises.
RoundResult decode_round(RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop);

/// What a lone forward of this session runs on.
ForwardContext forward_context(const RoundState& state) noexcept;

}  // namespace ft::speculation
