#include "nn/router.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

struct Routed {
  std::vector<std::uint32_t> experts;
  std::vector<float> weights;
};

Routed routed(const std::vector<float>& logits, const std::vector<float>& bias, RouterShape shape) {
  shape.n_experts = logits.size();
  Routed result{std::vector<std::uint32_t>(shape.n_active), std::vector<float>(shape.n_active)};
  route(logits, bias, shape, result.experts, result.weights);
  return result;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(Router, ChoosesWithTheBiasAndWeighsWithoutIt) {
  const Routed r = routed({2, 1, 0, -1}, {0, 0, 0, 0.9F}, {.n_active = 2, .scale = 2.5F});
  EXPECT_THAT(r.experts, ElementsAre(3, 0));  // best first: 0.269 + 0.9, then 0.881
  const double sum = sigmoid(-1) + sigmoid(2);
  EXPECT_NEAR(r.weights[0], 2.5 * sigmoid(-1) / sum, 1e-6);
  EXPECT_NEAR(r.weights[1], 2.5 * sigmoid(2) / sum, 1e-6);
}

TEST(Router, LeavesWeightsAloneWithoutNormalisation) {
  const Routed r = routed({0, 1}, {0, 0}, {.n_active = 1, .normalizes = false, .scale = 3});
  EXPECT_THAT(r.experts, ElementsAre(1));
  EXPECT_NEAR(r.weights[0], 3 * sigmoid(1), 1e-6);
}

TEST(Router, GivesTiesToTheLowerExpert) {
  const std::vector<float> zeros(6, 0);
  EXPECT_THAT(routed(zeros, zeros, {.n_active = 3}).experts, ElementsAre(0, 1, 2));
  EXPECT_THAT(routed({0, 1, 0, 1, 0, 1}, zeros, {.n_active = 4}).experts, ElementsAre(1, 3, 5, 0));
}

TEST(Router, ChoosesAllExpertsWhenAllAreActive) {
  EXPECT_THAT(routed({-1, 2, 0}, {0, 0, 0}, {.n_active = 3}).experts, ElementsAre(1, 2, 0));
}

TEST(Router, KeepsOnlyTheBestGroups) {
  // Group sums of the two best: {2, -3} loses to {0.5, 0.5}, though 2 is the largest of all.
  const std::vector<float> bias{2, -3, 0.5F, 0.5F, 0, 0};
  const std::vector<float> zeros(6, 0);
  const RouterShape one{.n_active = 2, .n_groups = 3, .n_kept_groups = 1};
  EXPECT_THAT(routed(zeros, bias, one).experts, ElementsAre(2, 3));
  const RouterShape two{.n_active = 3, .n_groups = 3, .n_kept_groups = 2};
  EXPECT_THAT(routed(zeros, bias, two).experts, ElementsAre(2, 3, 4));
  const RouterShape all{.n_active = 2, .n_groups = 3, .n_kept_groups = 3};
  EXPECT_THAT(routed(zeros, bias, all).experts, ElementsAre(0, 2));
}

TEST(Router, GivesGroupTiesToTheLowerGroup) {
  const std::vector<float> zeros(8, 0);
  const RouterShape shape{.n_active = 2, .n_groups = 4, .n_kept_groups = 1};
  EXPECT_THAT(routed(zeros, zeros, shape).experts, ElementsAre(0, 1));
  const RouterShape single{.n_active = 1, .n_groups = 8, .n_kept_groups = 2};
  EXPECT_THAT(routed({0, 0, 5, 0, 0, 5, 5, 0}, zeros, single).experts, ElementsAre(2));
}

TEST(Router, SurvivesScoresThatVanish) {
  const Routed r = routed({-200, -200, -200}, {0, 0, 0}, {.n_active = 2, .scale = 2.5F});
  EXPECT_THAT(r.experts, ElementsAre(0, 1));
  for (const float weight : r.weights) EXPECT_TRUE(std::isfinite(weight));
}

TEST(Router, PoisonsTheWeightsOfARowThatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, std::numeric_limits<float>::infinity()}) {
    const Routed r = routed({0, 1, bad, 2}, {0, 0, 0, 0}, {.n_active = 4});
    EXPECT_THAT(r.experts, UnorderedElementsAre(0, 1, 2, 3));
    for (const float weight : r.weights) EXPECT_TRUE(std::isnan(weight));
  }
}

}  // namespace
}  // namespace ft::nn
