#include "text/vocabulary.h"

#include "base/error.h"

#include <bit>
#include <cstring>
#include <utility>

namespace ft::text {

namespace {

constexpr Token kNoToken = -1;
constexpr std::size_t kMaxArenaBytes = UINT32_MAX;

/// Eight bytes a step; tokens are short, so the loop rarely turns.
std::uint64_t hash_bytes(std::string_view bytes) noexcept {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, odd
  std::uint64_t hash = bytes.size() * kMultiplier;
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t n = bytes.size() < sizeof(word) ? bytes.size() : sizeof(word);
    std::memcpy(&word, bytes.data(), n);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
    bytes.remove_prefix(n);
  }
  hash *= kMultiplier;
  return hash ^ (hash >> 32);
}

}  // namespace

void Vocabulary::reserve(std::size_t n_tokens, std::size_t n_bytes) {
  entries_.reserve(n_tokens);
  arena_.reserve(n_bytes);
  // At most half full: a miss, the usual answer, ends after about two slots.
  resize_slots(std::bit_ceil(2 * n_tokens + 16));
}

bool Vocabulary::add(Token id, std::string_view bytes, Kind kind) {
  FT_CHECK(id >= 0 && id < kMaxTokens && !bytes.empty() && this->kind(id) == Kind::kAbsent);
  FT_CHECK(arena_.size() + bytes.size() <= kMaxArenaBytes);
  if (kind == Kind::kBytes) {
    if (2 * (n_used_slots_ + 1) > slots_.size())
      resize_slots(slots_.empty() ? 16 : 2 * slots_.size());
    const std::size_t slot = slot_of(bytes);
    if (slots_[slot] != kNoToken) return false;
    slots_[slot] = id;
    ++n_used_slots_;
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  entries_[index] = {
      static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(bytes.size()), kind};
  arena_ += bytes;
  return true;
}

void Vocabulary::mark_added(Token id, Kind kind) {
  FT_CHECK(this->kind(id) != Kind::kAbsent);
  entries_[static_cast<std::size_t>(id)].kind = kind;
}

Vocabulary::Kind Vocabulary::kind(Token id) const noexcept {
  const bool is_in_range = id >= 0 && static_cast<std::size_t>(id) < entries_.size();
  return is_in_range ? entries_[static_cast<std::size_t>(id)].kind : Kind::kAbsent;
}

std::string_view Vocabulary::bytes(Token id) const noexcept {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return {arena_.data() + entry.offset, entry.size};
}

std::optional<Token> Vocabulary::find(std::string_view bytes) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const Token id = slots_[slot_of(bytes)];
  if (id == kNoToken) return std::nullopt;
  return id;
}

/// The slot that holds `bytes`, or the free one where they belong. At least one slot is free.
std::size_t Vocabulary::slot_of(std::string_view bytes) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_bytes(bytes) & mask;
  while (slots_[slot] != kNoToken && this->bytes(slots_[slot]) != bytes) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::resize_slots(std::size_t n_slots) {
  const std::vector<Token> old = std::exchange(slots_, std::vector<Token>(n_slots, kNoToken));
  for (const Token id : old) {
    if (id != kNoToken) slots_[slot_of(bytes(id))] = id;
  }
}

}  // namespace ft::text
