#include "speculation/suffix_automaton.h"

#include "base/error.h"

#include <algorithm>
#include <limits>

namespace ft::speculation {
namespace {

constexpr std::size_t kFirstSlots = 64;

// How many ends of the sequence learn where it occurred last. All of them would cost their number
// per token; the longest ones are those that are asked for.
constexpr int kRefreshed = 4;

}  // namespace

SuffixAutomaton::SuffixAutomaton() : states_(1), slots_(kFirstSlots, kNone) {}

std::uint32_t SuffixAutomaton::new_state(const State& state) {
  states_.push_back(state);
  return static_cast<std::uint32_t>(states_.size() - 1);
}

std::size_t SuffixAutomaton::slot_of(std::uint32_t from, Token token) const noexcept {
  std::uint64_t key = std::uint64_t{from} << 32 | static_cast<std::uint32_t>(token);
  key = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15U;
  std::size_t slot = (key ^ (key >> 29)) & (slots_.size() - 1);
  while (slots_[slot] != kNone &&
         (edges_[slots_[slot]].from != from || edges_[slots_[slot]].token != token)) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

std::uint32_t SuffixAutomaton::find_edge(std::uint32_t from, Token token) const noexcept {
  return slots_[slot_of(from, token)];
}

void SuffixAutomaton::add_edge(std::uint32_t from, Token token, std::uint32_t to) {
  if ((edges_.size() + 1) * 3 > slots_.size() * 2) grow_slots();
  const auto edge = static_cast<std::uint32_t>(edges_.size());
  slots_[slot_of(from, token)] = edge;
  edges_.push_back({from, token, to, states_[from].first_edge});
  states_[from].first_edge = edge;
}

void SuffixAutomaton::grow_slots() {
  slots_.assign(slots_.size() * 2, kNone);
  for (std::uint32_t i = 0; i < edges_.size(); ++i)
    slots_[slot_of(edges_[i].from, edges_[i].token)] = i;
}

// The state `to`, reached from `from` by `token`, stands for longer sequences too: gives the short
// ones a state of their own.
std::uint32_t SuffixAutomaton::split(std::uint32_t from, Token token, std::uint32_t to) {
  const std::uint32_t clone = new_state({.length = states_[from].length + 1,
                                         .link = states_[to].link,
                                         .recent_end = states_[to].recent_end});
  for (std::uint32_t edge = states_[to].first_edge; edge != kNone; edge = edges_[edge].next) {
    add_edge(clone, edges_[edge].token, edges_[edge].to);
  }
  while (from != kNone) {
    const std::uint32_t edge = find_edge(from, token);
    if (edge == kNone || edges_[edge].to != to) break;
    edges_[edge].to = clone;
    from = states_[from].link;
  }
  states_[to].link = clone;
  return clone;
}

void SuffixAutomaton::push_back(Token token) {
  FT_CHECK(tokens_.size() < std::numeric_limits<std::uint32_t>::max() / 4);
  const auto end = static_cast<std::uint32_t>(tokens_.size());
  // Only now do the ends of the sequence have a follower.
  std::uint32_t state = last_;
  for (int i = 0; i < kRefreshed && state != 0; ++i, state = states_[state].link) {
    states_[state].recent_end = end;
  }
  tokens_.push_back(token);

  const std::uint32_t now = new_state({.length = end + 1, .recent_end = end + 1});
  std::uint32_t from = last_;
  while (from != kNone && find_edge(from, token) == kNone) {
    add_edge(from, token, now);
    from = states_[from].link;
  }
  if (from == kNone) {
    states_[now].link = 0;
  } else {
    const std::uint32_t to = edges_[find_edge(from, token)].to;
    const bool is_short = states_[to].length == states_[from].length + 1;
    states_[now].link = is_short ? to : split(from, token, to);
  }
  last_ = now;
}

SuffixAutomaton::Match SuffixAutomaton::advance(Match match, Token token) const {
  for (;;) {
    const std::uint32_t edge = find_edge(match.state, token);
    if (edge != kNone) return {edges_[edge].to, match.length + 1};
    if (match.state == 0) return {};
    match.state = states_[match.state].link;
    match.length = std::min<std::size_t>(match.length, states_[match.state].length);
  }
}

std::size_t SuffixAutomaton::used_bytes() const noexcept {
  return tokens_.capacity() * sizeof(Token) + states_.capacity() * sizeof(State) +
         edges_.capacity() * sizeof(Edge) + slots_.capacity() * sizeof(std::uint32_t);
}

}  // namespace ft::speculation
