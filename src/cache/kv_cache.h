// All mutable state a model keeps for one sequence.
#pragma once

#include "tensor/dtype.h"

#include <cstddef>
#include <memory>

namespace ft::cache {

struct CacheOptions {
  /// Positions the cache can hold. Memory is reserved, not committed.
  std::size_t max_tokens = 0;
  /// How attention caches store their rows: kF32, or kBF16 (rounded when written, half the bytes).
  DType dtype = DType::kF32;
};

class KvCache {
 public:
  virtual ~KvCache() = default;
  /// Positions written.
  virtual std::size_t length() const noexcept = 0;
  virtual std::size_t max_tokens() const noexcept = 0;
  /// How many positions truncate() may drop after the next forward, however many that one adds: a
  /// round drafts at most this many tokens. Not bounded by length(); max_tokens() if every position
  /// can be dropped.
  virtual std::size_t rollback_limit() const noexcept = 0;
  /// Drops positions >= new_length. O(1) for attention. Throws LogicError if new_length > length()
  /// or more than rollback_limit() positions would be lost. Called once per round by
  /// decode_round().
  virtual void truncate(std::size_t new_length) = 0;
  /// A deep copy; cost is proportional to length().
  virtual std::unique_ptr<KvCache> clone() const = 0;
  /// clone() and truncate(new_length) in one, for the cost of what stays. Throws as truncate().
  virtual std::unique_ptr<KvCache> clone_front(std::size_t new_length) const {
    std::unique_ptr<KvCache> copy = clone();
    copy->truncate(new_length);
    return copy;
  }
  /// Bytes of state for the positions written.
  virtual std::size_t used_bytes() const noexcept = 0;
};

}  // namespace ft::cache
