#include "experts/mirror_shares.h"

#include <array>

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

/// Two drives that read one after the other at their own speed; two requests are always under way
/// at each. Returns how many of `n` reads went to each.
std::array<std::size_t, 2> share(MirrorShares& mirrors,
                                 std::array<std::int64_t, 2> read_us,
                                 int n) {
  std::array<std::size_t, 2> counts{};
  std::array<std::size_t, 2> queued{};
  std::array<std::int64_t, 2> ends_us{};
  std::int64_t now_us = 0;
  for (int under_way = 0; n > 0 || under_way > 0;) {
    for (; n > 0 && under_way < 8; --n, ++under_way) {
      const std::size_t i = mirrors.choose(1000, now_us, kNoMirror);
      if (queued[i]++ == 0) ends_us[i] = now_us + read_us[i];
      ++counts[i];
    }
    const std::size_t next = queued[1] == 0 || (queued[0] > 0 && ends_us[0] <= ends_us[1]) ? 0 : 1;
    now_us = ends_us[next];
    mirrors.finished(next, 1000, 1000, now_us);
    mirrors.judged(next, true, now_us);
    --under_way;
    if (--queued[next] > 0) ends_us[next] = now_us + read_us[next];
  }
  return counts;
}

TEST(MirrorShares, EqualDrivesGetEqualShares) {
  MirrorShares mirrors(2);
  const auto counts = share(mirrors, {100, 100}, 1000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 500, 20);
}

TEST(MirrorShares, SharesFollowTheSpeed) {
  MirrorShares mirrors(2);
  const auto counts = share(mirrors, {100, 300}, 4000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 3000, 150);
}

TEST(MirrorShares, AFailedReadGoesToAnotherIfThereIsOne) {
  MirrorShares mirrors(2);
  EXPECT_EQ(mirrors.choose(1000, 0, 0), 1U);
  EXPECT_EQ(mirrors.choose(1000, 0, 1), 0U);
  MirrorShares single(1);
  EXPECT_EQ(single.choose(1000, 0, 0), 0U);
}

TEST(MirrorShares, OneThatFailsAgainAndAgainRests) {
  MirrorShares mirrors(2);
  for (int i = 0; i < 3; ++i) mirrors.judged(0, false, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(mirrors.choose(1000, 29'000'000, kNoMirror), 1U);
  EXPECT_EQ(mirrors.choose(1000, 31'000'000, kNoMirror), 0U);
}

TEST(MirrorShares, SingleFailuresAreForgiven) {
  MirrorShares mirrors(2);
  for (int i = 0; i < 10; ++i) {
    mirrors.judged(0, false, 0);
    mirrors.judged(0, true, 0);
  }
  EXPECT_EQ(mirrors.choose(1000, 0, kNoMirror), 0U);
}

TEST(MirrorShares, WhenAllRestTheyAreReadAllTheSame) {
  MirrorShares mirrors(1);
  for (int i = 0; i < 5; ++i) mirrors.judged(0, false, 0);
  EXPECT_EQ(mirrors.choose(1000, 1, kNoMirror), 0U);
}

}  // namespace
}  // namespace ft::experts
