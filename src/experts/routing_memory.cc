#include "experts/routing_memory.h"

#include "base/error.h"

#include <algorithm>

namespace ft::experts {

RoutingMemory::RoutingMemory(std::size_t n_layers, std::size_t n_active)
    : n_layers_(n_layers), n_active_(n_active) {
  FT_CHECK(n_layers > 0 && n_active > 0);
  entries_.resize(n_tokens_for(n_layers, n_active));
  experts_.assign(entries_.size() * n_layers * n_active, kNone);
}

std::size_t RoutingMemory::n_tokens_for(std::size_t n_layers, std::size_t n_active) noexcept {
  const std::size_t n = std::min(kMaxTokens, kMaxBytes / entry_bytes(n_layers, n_active));
  return std::max<std::size_t>(n / kSetEntries, 1) * kSetEntries;
}

std::size_t RoutingMemory::bytes_for(std::size_t n_layers, std::size_t n_active) noexcept {
  return n_tokens_for(n_layers, n_active) * entry_bytes(n_layers, n_active);
}

std::size_t RoutingMemory::first_of_set(Token token) const noexcept {
  // Ids are dense, and neighbours are as likely as others to be used together.
  return static_cast<std::size_t>(token) % (entries_.size() / kSetEntries) * kSetEntries;
}

std::span<std::uint16_t> RoutingMemory::experts_of(std::size_t entry, std::size_t layer) noexcept {
  return {experts_.data() + (entry * n_layers_ + layer) * n_active_, n_active_};
}

void RoutingMemory::record(Token token, std::size_t layer, std::span<const std::uint32_t> experts) {
  FT_CHECK(token >= 0 && layer < n_layers_ && experts.size() == n_active_);
  const std::size_t first = first_of_set(token);
  std::size_t entry = first;
  for (std::size_t i = first; i < first + kSetEntries; ++i) {
    if (entries_[i].token == token) {
      entry = i;
      break;
    }
    if (entries_[i].last_tick < entries_[entry].last_tick) entry = i;
  }
  if (entries_[entry].token != token) {
    entries_[entry].token = token;
    std::fill_n(experts_of(entry, 0).data(), n_layers_ * n_active_, kNone);
  }
  entries_[entry].last_tick = ++tick_;
  std::ranges::transform(experts, experts_of(entry, layer).begin(), [](std::uint32_t expert) {
    return static_cast<std::uint16_t>(expert);
  });
}

void RoutingMemory::recall(Token token,
                           std::size_t layer,
                           std::vector<std::uint32_t>& experts) const {
  FT_CHECK(token >= 0 && layer < n_layers_);
  const std::size_t first = first_of_set(token);
  for (std::size_t i = first; i < first + kSetEntries; ++i) {
    if (entries_[i].token != token) continue;
    const std::uint16_t* known = experts_.data() + (i * n_layers_ + layer) * n_active_;
    if (known[0] != kNone) experts.insert(experts.end(), known, known + n_active_);
    return;
  }
}

}  // namespace ft::experts
