#include "experts/routing_memory.h"

#include <vector>

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

using Ids = std::vector<std::uint32_t>;

Ids recalled(const RoutingMemory& memory, Token token, std::size_t layer) {
  Ids out;
  memory.recall(token, layer, out);
  return out;
}

TEST(RoutingMemoryTest, KnowsTheLastChoiceOfEachTokenAndLayer) {
  RoutingMemory memory(3, 2);
  memory.record(7, 1, Ids{5, 9});
  memory.record(7, 2, Ids{4, 0});
  memory.record(8, 1, Ids{1, 2});
  memory.record(7, 1, Ids{9, 6});
  EXPECT_EQ(recalled(memory, 7, 1), (Ids{9, 6}));
  EXPECT_EQ(recalled(memory, 7, 2), (Ids{4, 0}));
  EXPECT_EQ(recalled(memory, 8, 1), (Ids{1, 2}));
  EXPECT_EQ(recalled(memory, 7, 0), Ids());  // that layer never had it
  EXPECT_EQ(recalled(memory, 9, 1), Ids());
}

TEST(RoutingMemoryTest, RecallAppends) {
  RoutingMemory memory(1, 2);
  memory.record(1, 0, Ids{3, 4});
  Ids out = {8};
  memory.recall(2, 0, out);
  memory.recall(1, 0, out);
  EXPECT_EQ(out, (Ids{8, 3, 4}));
}

TEST(RoutingMemoryTest, ForgetsWhatWasNotSeenForLongest) {
  RoutingMemory memory(1, 1);
  const auto stride = static_cast<Token>(memory.n_tokens() / 4);  // tokens of one set
  for (Token i = 0; i < 4; ++i) memory.record(i * stride, 0, Ids{static_cast<std::uint32_t>(i)});
  memory.record(0, 0, Ids{10});
  memory.record(4 * stride, 0, Ids{4});
  EXPECT_EQ(recalled(memory, 0, 0), Ids{10});
  EXPECT_EQ(recalled(memory, stride, 0), Ids());
  EXPECT_EQ(recalled(memory, 2 * stride, 0), Ids{2});
  EXPECT_EQ(recalled(memory, 4 * stride, 0), Ids{4});
}

TEST(RoutingMemoryTest, AReplacedTokenLeavesNothingToItsSuccessor) {
  RoutingMemory memory(2, 1);
  const auto stride = static_cast<Token>(memory.n_tokens() / 4);
  for (Token i = 0; i < 4; ++i) {
    memory.record(i * stride, 0, Ids{1});
    memory.record(i * stride, 1, Ids{1});
  }
  memory.record(4 * stride, 1, Ids{2});
  EXPECT_EQ(recalled(memory, 4 * stride, 0), Ids());
}

TEST(RoutingMemoryTest, IsBounded) {
  const RoutingMemory large(78, 8);
  EXPECT_LE(RoutingMemory::bytes_for(78, 8), RoutingMemory::kMaxBytes);
  EXPECT_GT(large.n_tokens(), 3000U);
  const RoutingMemory absurd(1000, 4096);
  EXPECT_EQ(absurd.n_tokens(), 4U);
  const RoutingMemory small(6, 4);
  EXPECT_EQ(small.n_tokens(), RoutingMemory::kMaxTokens);
  EXPECT_LT(RoutingMemory::bytes_for(6, 4), 300'000U);
}

}  // namespace
}  // namespace ft::experts
