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

LatentCache::LatentCache(LatentLayout layout, const CacheOptions& options)
    : layout_(std::move(layout)), max_tokens_(options.max_tokens) {
  FT_CHECK(layout_.key_dim > 0);
  for (const bool has_index_keys : layout_.has_index_keys) {
    FT_CHECK(!has_index_keys || layout_.index_dim > 0);
    keys_.emplace_back(max_tokens_ * layout_.key_dim * sizeof(float));
    index_keys_.emplace_back(has_index_keys ? max_tokens_ * layout_.index_dim * sizeof(float) : 0);
  }
}

float* LatentCache::keys(std::size_t layer) noexcept {
  return keys_[layer].as<float>(max_tokens_ * layout_.key_dim).data();
}

float* LatentCache::index_keys(std::size_t layer) noexcept {
  if (!layout_.has_index_keys[layer]) return nullptr;
  return index_keys_[layer].as<float>(max_tokens_ * layout_.index_dim).data();
}

void LatentCache::append(std::size_t n) {
  FT_CHECK(n <= max_tokens_ - length_);
  length_ += n;
}

void LatentCache::truncate(std::size_t new_length) {
  FT_CHECK(new_length <= length_);
  length_ = new_length;
}

std::unique_ptr<KvCache> LatentCache::clone() const {
  auto copy = std::make_unique<LatentCache>(layout_, CacheOptions{.max_tokens = max_tokens_});
  for (std::size_t layer = 0; layer < layout_.n_layers(); ++layer) {
    copy_rows(copy->keys_[layer], keys_[layer], length_ * layout_.key_dim * sizeof(float));
    if (layout_.has_index_keys[layer]) {
      copy_rows(copy->index_keys_[layer],
                index_keys_[layer],
                length_ * layout_.index_dim * sizeof(float));
    }
  }
  copy->length_ = length_;
  return copy;
}

std::size_t LatentCache::used_bytes() const noexcept {
  std::size_t row_floats = 0;
  for (const bool has_index_keys : layout_.has_index_keys) {
    row_floats += layout_.key_dim + (has_index_keys ? layout_.index_dim : 0);
  }
  return length_ * row_floats * sizeof(float);
}

}  // namespace ft::cache
