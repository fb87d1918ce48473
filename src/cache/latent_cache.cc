#include "cache/latent_cache.h"

#include "base/error.h"

#include <cstring>
#include <utility>

namespace ft::cache {
namespace {

void copy_rows(Buffer& destination, const Buffer& source, std::size_t size_bytes) {
  if (size_bytes > 0) std::memcpy(destination.data(), source.data(), size_bytes);
}

}  // namespace

std::size_t LatentLayout::position_bytes(DType dtype) const noexcept {
  std::size_t n_columns = 0;
  for (const bool has_keys : has_index_keys) n_columns += key_dim + (has_keys ? index_dim : 0);
  return n_columns * element_bytes(dtype);
}

LatentCache::LatentCache(LatentLayout layout, const CacheOptions& options)
    : layout_(std::move(layout)), dtype_(options.dtype), max_tokens_(options.max_tokens) {
  FT_CHECK(layout_.key_dim > 0 && (dtype_ == DType::kF32 || dtype_ == DType::kBF16));
  const std::size_t width = element_bytes(dtype_);
  for (const bool has_index_keys : layout_.has_index_keys) {
    FT_CHECK(!has_index_keys || layout_.index_dim > 0);
    keys_.emplace_back(max_tokens_ * layout_.key_dim * width);
    index_keys_.emplace_back(has_index_keys ? max_tokens_ * layout_.index_dim * width : 0);
  }
}

void LatentCache::append(std::size_t n) {
  FT_CHECK(n <= max_tokens_ - length_);
  length_ += n;
}

void LatentCache::truncate(std::size_t new_length) {
  FT_CHECK(new_length <= length_);
  length_ = new_length;
}

std::unique_ptr<KvCache> LatentCache::clone_front(std::size_t new_length) const {
  FT_CHECK(new_length <= length_);
  auto copy = std::make_unique<LatentCache>(
      layout_, CacheOptions{.max_tokens = max_tokens_, .dtype = dtype_});
  const std::size_t width = element_bytes(dtype_);
  for (std::size_t layer = 0; layer < layout_.n_layers(); ++layer) {
    copy_rows(copy->keys_[layer], keys_[layer], new_length * layout_.key_dim * width);
    if (layout_.has_index_keys[layer]) {
      copy_rows(
          copy->index_keys_[layer], index_keys_[layer], new_length * layout_.index_dim * width);
    }
  }
  copy->length_ = new_length;
  return copy;
}

std::size_t LatentCache::used_bytes() const noexcept {
  return length_ * layout_.position_bytes(dtype_);
}

}  // namespace ft::cache
