#include "speculation/ngram_index.h"

#include "base/error.h"

#include <limits>

namespace ft::speculation {
namespace {

constexpr std::size_t kFirstSlots = 256;

// How many occurrences of other k-grams with the same hash are passed over. There are at least two
// slots per occurrence, so that a longer chain is next to impossible; the bound keeps a hostile
// prompt linear.
constexpr std::size_t kMaxSteps = 64;

}  // namespace

std::size_t NgramIndex::slot(std::size_t k, std::size_t end) const {
  std::uint64_t hash = 0;
  for (std::size_t i = end - k; i < end; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens_[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash & (chains_.at(k - 1).heads.size() - 1);
}

bool NgramIndex::is_equal(std::size_t k, std::size_t end, std::size_t other_end) const {
  for (std::size_t i = 1; i <= k; ++i) {
    if (tokens_[end - i] != tokens_[other_end - i]) return false;
  }
  return true;
}

void NgramIndex::link(std::size_t k, std::size_t position) {
  Chains& chains = chains_.at(k - 1);
  Position& head = chains.heads[slot(k, position)];
  chains.previous[position] = head;
  head = static_cast<Position>(position);
}

void NgramIndex::grow(std::size_t k) {
  Chains& chains = chains_.at(k - 1);
  chains.heads.assign(chains.heads.empty() ? kFirstSlots : chains.heads.size() * 2, 0);
  for (std::size_t position = k; position + 1 < tokens_.size(); ++position) link(k, position);
}

// The k-grams before the new token get a follower: only now can they be found, so the end of the
// sequence never matches itself.
void NgramIndex::push_back(Token token) {
  const std::size_t position = tokens_.size();
  FT_CHECK(position < std::numeric_limits<Position>::max());
  tokens_.push_back(token);
  for (std::size_t k = 1; k <= kMaxLength; ++k) {
    chains_.at(k - 1).previous.push_back(0);
    if (tokens_.size() * 2 > chains_.at(k - 1).heads.size()) grow(k);
    if (position >= k) link(k, position);
  }
}

void NgramIndex::pop_back() {
  FT_CHECK(!tokens_.empty());
  const std::size_t position = tokens_.size() - 1;
  for (std::size_t k = 1; k <= kMaxLength; ++k) {
    Chains& chains = chains_.at(k - 1);
    if (position >= k) chains.heads[slot(k, position)] = chains.previous[position];
    chains.previous.pop_back();
  }
  tokens_.pop_back();
}

std::optional<NgramIndex::Match> NgramIndex::find() const {
  const std::size_t end = tokens_.size();
  for (std::size_t k = kMaxLength; k >= 1; --k) {
    if (end <= k) continue;
    const Chains& chains = chains_.at(k - 1);
    std::size_t candidate = chains.heads[slot(k, end)];
    for (std::size_t step = 0; candidate != 0 && step < kMaxSteps; ++step) {
      if (is_equal(k, end, candidate)) return Match{k, candidate};
      candidate = chains.previous[candidate];
    }
  }
  return std::nullopt;
}

std::size_t NgramIndex::used_bytes() const noexcept {
  std::size_t bytes = tokens_.capacity() * sizeof(Token);
  for (const Chains& chains : chains_)
    bytes += (chains.heads.capacity() + chains.previous.capacity()) * sizeof(Position);
  return bytes;
}

}  // namespace ft::speculation
