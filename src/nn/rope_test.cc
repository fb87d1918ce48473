#include "nn/rope.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace ft::nn {
namespace {

TEST(Rotary, PairsAreInterleavedAndResultsDeinterleaved) {
  const RotaryTable table(100, 4);
  std::array<float, 2> cos{};
  std::array<float, 2> sin{};
  table.angles(3, cos.data(), sin.data());
  const std::array<float, 4> in{1, 2, 3, 4};
  std::array<float, 4> out{};
  rotate(in.data(), cos, sin, out.data());
  // Frequencies 1 and 100^-1/2 = 0.1.
  EXPECT_NEAR(out[0], 1 * std::cos(3.0) - 2 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(out[2], 2 * std::cos(3.0) + 1 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(out[1], 3 * std::cos(0.3) - 4 * std::sin(0.3), 1e-6);
  EXPECT_NEAR(out[3], 4 * std::cos(0.3) + 3 * std::sin(0.3), 1e-6);
  std::array<float, 4> same = in;
  rotate_in_place(same.data(), cos, sin);
  EXPECT_EQ(same, out);
}

TEST(Rotary, AnglesAreExactFarOut) {
  const RotaryTable table(8e6, 64);
  std::vector<float> cos(32);
  std::vector<float> sin(32);
  constexpr std::size_t kPosition = 1'000'003;
  table.angles(kPosition, cos.data(), sin.data());
  for (int j = 0; j < 32; ++j) {
    const long double angle = static_cast<long double>(kPosition) *
                              std::pow(8e6L, -2.0L * static_cast<long double>(j) / 64);
    EXPECT_NEAR(cos[static_cast<std::size_t>(j)], static_cast<double>(std::cos(angle)), 1e-7);
    EXPECT_NEAR(sin[static_cast<std::size_t>(j)], static_cast<double>(std::sin(angle)), 1e-7);
  }
}

TEST(Rows, AnglesFollowTheRuns) {
  ThreadPool pool(2);
  const auto backend = kernels::make_cpu_backend(kernels::Isa::kRef, pool);
  const RotaryTable table(100, 4);
  const std::array runs{nn::Run{0, 40, 7}, nn::Run{40, 2, 0}};
  Rows rows;
  rows.assign({*backend, pool}, runs, table);
  EXPECT_EQ(rows.size(), 42U);
  for (const auto& [row, position] : {std::pair{0, 7}, {39, 46}, {40, 0}, {41, 1}}) {
    std::array<float, 2> cos{};
    std::array<float, 2> sin{};
    table.angles(static_cast<std::size_t>(position), cos.data(), sin.data());
    EXPECT_EQ(rows.cos_of(static_cast<std::size_t>(row))[1], cos[1]);
    EXPECT_EQ(rows.sin_of(static_cast<std::size_t>(row))[0], sin[0]);
  }
  const std::array gap{nn::Run{1, 2, 0}};
  EXPECT_THROW(rows.assign({*backend, pool}, gap, table), LogicError);
}

}  // namespace
}  // namespace ft::nn
