// Finds added tokens in text: leftmost first, the longest at one place, in linear time whatever the
// tokens are.
#pragma once

#include "base/types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text {

class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    Token id = 0;
  };

  AddedTokenMatcher() = default;
  /// Contents must be different and not empty.
  explicit AddedTokenMatcher(std::span<const std::pair<std::string_view, Token>> tokens);

  /// Matches in the order of the text; none overlap.
  std::vector<Match> find_all(std::string_view text) const;

 private:
  using Node = std::uint32_t;
  struct Edge {
    unsigned char byte;
    Node child;
  };
  struct NodeData {
    std::uint32_t first_edge = 0;  // into edges_; the next node's first_edge ends the list
    Node fallback = 0;
    Token id = -1;           // of the longest token that ends here
    std::uint32_t size = 0;  // its bytes
  };
  Node step(Node node, unsigned char byte) const noexcept;
  Node child(Node node, unsigned char byte) const noexcept;

  // Aho-Corasick over the reversed tokens, read from the end of the text: what the automaton then
  // knows at each place is the longest token that begins there.
  std::vector<NodeData> nodes_;  // breadth first; the root is 0; one more behind the last
  std::vector<Edge> edges_;
  std::array<Node, 256>
      root_children_{};  // 0 where there is none: most bytes of a text end no added token
};

}  // namespace ft::text
