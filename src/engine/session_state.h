// What a session can be taken up from: a value in memory, made by Session::save() and put_down().
#pragma once

#include "base/types.h"
#include "cache/kv_cache.h"
#include "speculation/draft_source.h"
#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ft::engine {

/// What a source keeps that does not follow from the tokens.
struct SavedSource {
  std::string name;
  std::uint32_t version = 0;                        // DraftSource::state_version()
  std::unique_ptr<speculation::SourceState> state;  // never null
};

/// A session between two calls. It may be restored any number of times, and outlives the session
/// that it was made of. The sampler's position is that of the tokens; the planner's memory is not
/// part of it.
struct SessionState {
  // --- identity: a session with another one refuses it
  std::string weights_hash;
  DType kv_type = DType::kF32;
  std::size_t context = 0;  // positions of the caches

  std::vector<Token> tokens;  // committed
  std::size_t n_prompt = 0;   // of them
  std::size_t n_fed = 0;      // the others are pending: the last one, or the rest of the prompt
  std::uint64_t n_rounds = 0;
  std::unique_ptr<cache::KvCache> cache;  // of the target; n_fed positions
  std::vector<SavedSource> sources;       // those that have a state
};

/// Positions of a sequence, fed into `cache` as far as that goes, that a session with this prompt
/// can go on from. The last common token is fed again: logits, and the row that drafts of the token
/// behind it are made of, come of a forward alone.
std::size_t n_reusable(TokenSpan sequence, const cache::KvCache& cache, TokenSpan prompt);

}  // namespace ft::engine
