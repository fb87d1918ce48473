#include "experts/resident_store.h"

#include <array>

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

Expert expert_of_width(std::size_t width) {
  Expert expert;
  expert.down.n_in = width;
  return expert;
}

TEST(ResidentStore, HandsOutTheWholeUnionAtOnceInTheOrderAskedFor) {
  ResidentStore store({{}, {expert_of_width(10), expert_of_width(11), expert_of_width(12)}});
  const std::array<std::uint32_t, 2> wanted{2, 0};
  ExpertLease lease = store.acquire(1, wanted);
  const std::span<const std::uint32_t> ready = lease.next({});
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_EQ(lease.expert(ready[0]).down.n_in, 12U);
  EXPECT_EQ(lease.expert(ready[1]).down.n_in, 10U);
  EXPECT_TRUE(lease.next({}).empty());
  EXPECT_EQ(store.n_missing(1, wanted), 0U);
  EXPECT_FALSE(store.begin_pass(1));
  EXPECT_FALSE(store.stats().is_streaming);
}

}  // namespace
}  // namespace ft::experts
