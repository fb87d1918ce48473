// The cache of a sparse latent-attention model: per layer one row [latent | rotary key] per
// position, and on layers with an indexer one index key per position, in f32 or bf16. Written by
// nn/latent_attention, read by the attention kernels.
#pragma once

#include "base/buffer.h"
#include "cache/kv_cache.h"
#include "tensor/dtype.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace ft::cache {

/// The shape of one position.
struct LatentLayout {
  std::size_t key_dim = 0;           // latent width + rotary width; the stride of key rows
  std::size_t index_dim = 0;         // the stride of index-key rows; 0 if no layer has an indexer
  std::vector<bool> has_index_keys;  // one entry per layer

  std::size_t n_layers() const noexcept { return has_index_keys.size(); }
  /// Of one position in all layers.
  std::size_t position_bytes(DType dtype) const noexcept;
  bool operator==(const LatentLayout&) const = default;
};

/// Memory for max_tokens positions is reserved at creation and committed as rows are written. Rows
/// at or beyond length() are scratch: a forward writes them first and calls append() when it has
/// succeeded, so that a failed forward leaves no trace. Any number of positions can be dropped.
class LatentCache final : public KvCache {
 public:
  /// options.dtype is kF32 or kBF16. Throws ResourceExhausted if the memory cannot be reserved.
  LatentCache(LatentLayout layout, const CacheOptions& options);

  const LatentLayout& layout() const noexcept { return layout_; }
  /// Of all rows.
  DType dtype() const noexcept { return dtype_; }
  /// [max_tokens, key_dim] of dtype(). Lives as long as the cache.
  std::byte* keys(std::size_t layer) noexcept { return keys_[layer].data(); }
  /// [max_tokens, index_dim] of dtype(), or nullptr if the layer has no indexer.
  std::byte* index_keys(std::size_t layer) noexcept { return index_keys_[layer].data(); }
  /// Takes the n rows written after length() into the cache. Throws LogicError beyond max_tokens().
  void append(std::size_t n);

  std::size_t length() const noexcept override { return length_; }
  std::size_t max_tokens() const noexcept override { return max_tokens_; }
  std::size_t rollback_limit() const noexcept override { return max_tokens_; }
  void truncate(std::size_t new_length) override;
  std::unique_ptr<KvCache> clone() const override { return clone_front(length_); }
  std::unique_ptr<KvCache> clone_front(std::size_t new_length) const override;
  std::size_t used_bytes() const noexcept override;

 private:
  LatentLayout layout_;
  DType dtype_ = DType::kF32;
  std::size_t max_tokens_ = 0;
  std::size_t length_ = 0;
  std::vector<Buffer> keys_;
  std::vector<Buffer> index_keys_;  // empty buffers on layers without an indexer
};

}  // namespace ft::cache
