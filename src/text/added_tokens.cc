#include "text/added_tokens.h"

#include <algorithm>
#include <string>

namespace ft::text {

namespace {

struct Reversed {
  std::string bytes;
  Token id;
};

/// A node to be: the reversed tokens [first, last), in order, share `depth` bytes.
struct Group {
  std::size_t first;
  std::size_t last;
  std::size_t depth;
};

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::span<const std::pair<std::string_view, Token>> tokens) {
  std::vector<Reversed> sorted;
  for (const auto& [content, id] : tokens)
    sorted.push_back({{content.rbegin(), content.rend()}, id});
  std::sort(
      sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });

  std::vector<Group> groups{{0, sorted.size(), 0}};
  nodes_.resize(1);
  for (Node node = 0; node < groups.size(); ++node) {
    auto [first, last, depth] = groups[node];
    nodes_[node].first_edge = static_cast<std::uint32_t>(edges_.size());
    if (first < last && sorted[first].bytes.size() == depth) {
      nodes_[node].id = sorted[first].id;
      nodes_[node].size = static_cast<std::uint32_t>(depth);
      ++first;
    } else {
      const NodeData& shorter = nodes_[nodes_[node].fallback];
      nodes_[node].id = shorter.id;
      nodes_[node].size = shorter.size;
    }
    while (first < last) {
      const char byte = sorted[first].bytes[depth];
      std::size_t end = first + 1;
      while (end < last && sorted[end].bytes[depth] == byte) ++end;
      const auto label = static_cast<unsigned char>(byte);
      NodeData child_data;
      // Nodes nearer to the root have their edges already.
      child_data.fallback = node == 0 ? 0 : step(nodes_[node].fallback, label);
      const auto child_node = static_cast<Node>(nodes_.size());
      if (node == 0) root_children_[label] = child_node;
      edges_.push_back({label, child_node});
      nodes_.push_back(child_data);
      groups.push_back({first, end, depth + 1});
      first = end;
    }
  }
  nodes_.push_back({static_cast<std::uint32_t>(edges_.size()), 0, -1, 0});
}

/// 0 if there is none.
AddedTokenMatcher::Node AddedTokenMatcher::child(Node node, unsigned char byte) const noexcept {
  if (node == 0) return root_children_[byte];
  const auto first = edges_.begin() + nodes_[node].first_edge;
  const auto last = edges_.begin() + nodes_[node + 1].first_edge;
  const auto edge = std::lower_bound(
      first, last, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
  return edge != last && edge->byte == byte ? edge->child : 0;
}

AddedTokenMatcher::Node AddedTokenMatcher::step(Node node, unsigned char byte) const noexcept {
  while (true) {
    const Node next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fallback;
  }
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::find_all(std::string_view text) const {
  std::vector<Match> matches;
  if (edges_.empty()) return matches;
  Node node = 0;
  for (std::size_t begin = text.size(); begin-- > 0;) {
    node = step(node, static_cast<unsigned char>(text[begin]));
    const NodeData& found = nodes_[node];
    if (found.id >= 0) matches.push_back({begin, begin + found.size, found.id});
  }
  std::reverse(matches.begin(), matches.end());
  std::size_t end = 0;
  std::size_t n_kept = 0;
  for (const Match& match : matches) {
    if (match.begin < end) continue;
    end = match.end;
    matches[n_kept++] = match;
  }
  matches.resize(n_kept);
  return matches;
}

}  // namespace ft::text
