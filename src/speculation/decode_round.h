// One round of decoding, with or without drafts: the only place that knows the order
// propose → forward → verify → truncate → append → observe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "cache/kv_cache.h"
#include "models/model.h"
#include "sampling/sampler.h"
#include "speculation/draft_source.h"

namespace ft::speculation {

/// The session's state as a round sees it. Invariant at entry and exit: tokens.size() == cache.length() + 1.
struct RoundState {
  const models::Model* model = nullptr;
  models::Workspace* workspace = nullptr;
  cache::KvCache* cache = nullptr;
  std::vector<Token>* tokens = nullptr;  // committed; the last one is pending: sampled, not yet fed
  std::size_t n_prompt = 0;
  sampling::Sampler* sampler = nullptr;
  std::span<DraftSource* const> sources;  // all observe
  TokenSpan stop_tokens;
  const Clock* clock = nullptr;
};

struct RoundResult {
  std::vector<Token> drafts;
  std::size_t n_accepted = 0;
  std::size_t n_committed = 0;  // n_accepted + 1: the tokens appended by this round
  ConstMatrix logits;  // [n_committed, n_vocab]: row i chose the i-th of them; dies at the next forward
  std::int64_t draft_us = 0;
  std::int64_t forward_us = 0;
  std::int64_t verify_us = 0;
  std::int64_t observe_us = 0;
};

/// proposer: the source that drafts, or nullptr for none. max_drafts is cut to the cache's rollback limit and free
/// positions. Throws what forward and sources throw; then cache, tokens and sources are as before the round. A source
/// that returns more than asked, or an id outside the vocabulary, fails the request with Error.
RoundResult decode_round(RoundState& state,
                         DraftSource* proposer,
                         std::size_t max_drafts,
                         std::stop_token stop);

}  // namespace ft::speculation
