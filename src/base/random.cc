#include "base/random.h"

#include <array>

namespace ft {
namespace {

// Multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2): the increments are
// the golden ratio and sqrt(3) - 1 in 0.32 fixed point.
constexpr std::uint32_t kMultiplier0 = 0xD2511F53u;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kKeyIncrement0 = 0x9E3779B9u;
constexpr std::uint32_t kKeyIncrement1 = 0xBB67AE85u;
constexpr int kRounds = 10;

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

std::uint64_t noise_bits(std::uint64_t seed,
                         NoisePurpose purpose,
                         std::uint64_t position,
                         std::uint32_t index) {
  std::array<std::uint32_t, 4> x = {
      index, low(position), high(position), static_cast<std::uint32_t>(purpose)};
  std::uint32_t key0 = low(seed);
  std::uint32_t key1 = high(seed);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * x[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * x[2];
    x = {high(product1) ^ x[1] ^ key0, low(product1), high(product0) ^ x[3] ^ key1, low(product0)};
    key0 += kKeyIncrement0;
    key1 += kKeyIncrement1;
  }
  return std::uint64_t{x[1]} << 32 | x[0];
}

double noise_uniform(std::uint64_t seed,
                     NoisePurpose purpose,
                     std::uint64_t position,
                     std::uint32_t index) {
  // The half keeps both ends open: the largest value is 1 - 2^-53, which a double holds exactly.
  const std::uint64_t bits52 = noise_bits(seed, purpose, position, index) >> 12;
  return (static_cast<double>(bits52) + 0.5) * 0x1p-52;
}

}  // namespace ft
