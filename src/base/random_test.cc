#include "base/random.h"

#include <bit>
#include <set>

#include <gtest/gtest.h>

namespace ft {
namespace {

struct KnownAnswer {
  std::uint32_t counter[4];
  std::uint32_t key[2];
  std::uint32_t output[2];
};

// Random123 1.14, tests/kat_vectors, lines "philox4x32 10": the first two of four output words.
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb}},
};

std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}

TEST(Noise, EqualsRandom123_OnItsKnownAnswers) {
  for (const KnownAnswer& k : kKnownAnswers) {
    EXPECT_EQ(noise_bits(join(k.key[0], k.key[1]),
                         static_cast<NoisePurpose>(k.counter[3]),
                         join(k.counter[1], k.counter[2]),
                         k.counter[0]),
              join(k.output[0], k.output[1]));
  }
}

TEST(Noise, DiffersInEveryPartOfTheKey) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0u, 1u}) {
    for (auto purpose : {NoisePurpose::kTarget,
                         NoisePurpose::kDraft,
                         NoisePurpose::kAccept,
                         NoisePurpose::kResidual}) {
      for (std::uint64_t position : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
        for (std::uint32_t index : {0u, 1u, 154879u}) {
          seen.insert(noise_bits(seed, purpose, position, index));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2u * 4u * 3u * 3u);
}

TEST(Noise, UniformIsOpenAndCentred) {
  constexpr int kDraws = 100000;
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = noise_uniform(7, NoisePurpose::kAccept, 3, static_cast<std::uint32_t>(i));
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    sum_of_squares += u * u;
  }
  // Standard errors: 0.289 / sqrt(1e5) = 9e-4 and 0.298 / sqrt(1e5) = 9.4e-4; five of each.
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 5e-3);
  EXPECT_NEAR(sum_of_squares / kDraws, 1.0 / 3, 5e-3);
}

TEST(Noise, UniformUsesTheUpper52Bits) {
  const std::uint64_t bits = noise_bits(1, NoisePurpose::kTarget, 2, 3);
  const double u = noise_uniform(1, NoisePurpose::kTarget, 2, 3);
  EXPECT_EQ(static_cast<std::uint64_t>(u * 0x1p52), bits >> 12);
}

}  // namespace
}  // namespace ft
