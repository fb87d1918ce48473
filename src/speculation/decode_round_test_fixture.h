// What tests of rounds share.
#pragma once

#include "base/random.h"
#include "testing/generation.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace ft::speculation {

inline std::uint64_t random(std::uint64_t seed, std::uint64_t a, std::uint32_t b) {
  return noise_bits(seed, NoisePurpose::kAccept, a, b);
}

inline testing::GenerationOptions options_for(std::uint64_t seed, float temperature) {
  testing::GenerationOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  const std::size_t n_prompt = 1 + random(seed, 0, 0) % 9;
  for (std::size_t i = 0; i < n_prompt; ++i) {
    options.prompt.push_back(
        static_cast<Token>(1 + random(seed, 1, static_cast<std::uint32_t>(i)) % 15));
  }
  return options;
}

/// Every row of the head is (hidden t, token t + 1) of the final sequence; none is missing between
/// the first and the last.
inline void expect_true_rows(cache::KvCache& cache, TokenSpan tokens, std::size_t first) {
  const auto& rows = dynamic_cast<testing::FakeHeadCache&>(cache).rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t position = first + i;
    ASSERT_LT(position + 1, tokens.size());
    EXPECT_EQ(rows[i].state, testing::FakeModel::state_after(tokens.first(position + 1)));
    EXPECT_EQ(rows[i].next, tokens[position + 1]);
    EXPECT_FALSE(rows[i].is_chained);
  }
}

}  // namespace ft::speculation
