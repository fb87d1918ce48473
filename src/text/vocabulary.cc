#include "text/vocabulary.h"

#include "base/error.h"

#include <bit>
#include <cstring>
#include <utility>

namespace ft::text {

namespace {

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

/// The half that does not choose the slot.
std::uint32_t tag_of(std::uint64_t hash) noexcept {
  return static_cast<std::uint32_t>(hash >> 32);
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
    const std::uint64_t hash = hash_bytes(bytes);
    Slot& slot = slots_[slot_of(bytes, hash)];
    if (slot.id >= 0) return false;
    slot = {id, tag_of(hash)};
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
  const Slot& slot = slots_[slot_of(bytes, hash_bytes(bytes))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

/// The slot that holds `bytes`, or the free one where they belong. At least one slot is free.
std::size_t Vocabulary::slot_of(std::string_view bytes, std::uint64_t hash) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t index = hash & mask;
  while (slots_[index].id >= 0 &&
         (slots_[index].hash_tag != tag_of(hash) || this->bytes(slots_[index].id) != bytes)) {
    index = (index + 1) & mask;
  }
  return index;
}

void Vocabulary::resize_slots(std::size_t n_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots, Slot{-1, 0}));
  for (const Slot& slot : old) {
    if (slot.id >= 0) slots_[slot_of(bytes(slot.id), hash_bytes(bytes(slot.id)))] = slot;
  }
}

}  // namespace ft::text
