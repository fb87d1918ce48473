#include "speculation/forward_share.h"

#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

/// Forwards of a fake model that take 1,000 us, whatever their rows.
class ForwardCharge : public ::testing::Test {
 protected:
  ForwardCharge() : workspace_(model_.new_workspace()) {}

  std::vector<ForwardShare> run(const std::vector<std::size_t>& n_rows, ForwardCosts* costs) {
    std::vector<std::unique_ptr<cache::KvCache>> caches;
    std::vector<ForwardPart> parts;
    const std::vector<Token> tokens(64, 1);
    for (const std::size_t n : n_rows) {
      caches.push_back(model_.new_cache({.max_tokens = 64}));
      parts.push_back(
          {.slice = {caches.back().get(), TokenSpan(tokens).first(n), n}, .layers = {}});
    }
    const SharedForward forward(
        {.model = model_, .workspace = *workspace_, .clock = clock_, .costs = costs}, parts, {});
    std::vector<ForwardShare> shares;
    for (std::size_t i = 0; i < parts.size(); ++i) shares.push_back(forward.share(i));
    return shares;
  }

  testing::FakeClock clock_{1000};
  testing::FakeModel model_{testing::FakeModelOptions{}};
  std::unique_ptr<models::Workspace> workspace_;
};

TEST_F(ForwardCharge, IsByRowsAsLongAsNothingIsKnown) {
  ForwardCosts costs;
  for (ForwardCosts* known : {static_cast<ForwardCosts*>(nullptr), &costs}) {
    const std::vector<ForwardShare> shares = run({1, 3}, known);
    EXPECT_EQ(shares[0].forward_us, 250);
    EXPECT_EQ(shares[1].forward_us, 750);
  }
}

TEST_F(ForwardCharge, WhatNoRowAddsIsPaidInEqualParts) {
  ForwardCosts costs;
  for (int i = 0; i < 20; ++i) {
    for (const std::size_t n : {1U, 2U, 4U, 8U})
      costs.observe(n, 600 + 100.0 * static_cast<double>(n));
  }
  const std::vector<ForwardShare> shares = run({1, 3}, &costs);
  EXPECT_NEAR(static_cast<double>(shares[0].forward_us), 400, 15);
  EXPECT_NEAR(static_cast<double>(shares[1].forward_us), 600, 15);
  EXPECT_NEAR(static_cast<double>(shares[0].forward_us + shares[1].forward_us), 1000, 1);
  EXPECT_EQ(run({3}, &costs).front().forward_us, 1000) << "who is alone pays for all";
}

TEST(ForwardCosts, KnowsWhatNoRowAdds) {
  ForwardCosts costs;
  EXPECT_EQ(costs.fixed_part(4), 0);
  for (int i = 0; i < 30; ++i) {
    for (const std::size_t n : {1U, 4U, 6U, 12U})
      costs.observe(n, 230 + 143.0 * static_cast<double>(n));
  }
  EXPECT_NEAR(costs.fixed_part(1), 230.0 / 373, 0.03);
  EXPECT_NEAR(costs.fixed_part(4), 230.0 / 802, 0.03);
  EXPECT_NEAR(costs.fixed_part(200), 230.0 / 28830, 0.01);
  costs.observe(500, 1e9);  // more rows than drafts can make: no matter
  EXPECT_NEAR(costs.fixed_part(4), 230.0 / 802, 0.03);
}

TEST(ForwardCosts, ForwardsTooShortForTheClockAreStillShared) {
  ForwardCosts costs;
  for (int i = 0; i < 3; ++i) {
    costs.observe(1, 0);
    costs.observe(4, 0);
  }
  for (const std::size_t n_rows : {1U, 4U, 40U}) {
    EXPECT_GT(costs.fixed_part(n_rows), 0.0) << n_rows;
    EXPECT_LT(costs.fixed_part(n_rows), 1.0) << n_rows;
  }
}

}  // namespace
}  // namespace ft::speculation
