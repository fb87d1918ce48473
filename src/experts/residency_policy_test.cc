#include "experts/residency_policy.h"

#include <array>

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

// Two layers of four experts.
constexpr ExpertId kSecondLayer = 4;
constexpr std::size_t kExperts = 8;

void pass(ExpertUsage& usage, std::span<const ExpertId> experts) {
  for (const ExpertId expert : experts) usage.used(expert);
  usage.reached(kExperts);
  usage.end_pass();
}

std::array<double, 3> worth(PolicyKind kind,
                            const ExpertUsage& usage,
                            const std::array<ExpertId, 3>& residents) {
  std::array<double, 3> worth{-1, -1, -1};
  make_residency_policy(kind)->rate(usage, residents, worth);
  return worth;
}

TEST(ExpertUsage, HeatCountsUsesAndForgetsSlowly) {
  ExpertUsage usage(kExperts);
  for (int i = 0; i < 10; ++i) pass(usage, std::array<ExpertId, 1>{1});
  EXPECT_NEAR(usage.heat(1), 10, 0.1);
  EXPECT_NEAR(usage.passes(), 10, 0.1);
  EXPECT_EQ(usage.heat(2), 0);
  for (int i = 0; i < 1386; ++i) pass(usage, {});
  EXPECT_NEAR(usage.heat(1), 5, 0.1);
}

TEST(ExpertUsage, HeatStaysFiniteOverAVeryLongRun) {
  ExpertUsage usage(kExperts);
  for (int i = 0; i < 1'000'000; ++i) pass(usage, std::array<ExpertId, 1>{1});
  EXPECT_NEAR(usage.heat(1), 2000, 2);
  EXPECT_NEAR(usage.passes(), 2000, 2);
}

TEST(ExpertUsage, RecencyFadesByTurnsOfTheLayer) {
  ExpertUsage usage(kExperts);
  usage.used(5);
  EXPECT_EQ(usage.recency(5), 1);
  usage.reached(kExperts);
  usage.end_pass();
  EXPECT_EQ(usage.recency(5), 1);  // its layer has not had another turn
  usage.reached(kSecondLayer);
  EXPECT_EQ(usage.recency(5), 1);
  usage.reached(kExperts);
  EXPECT_LT(usage.recency(5), 0.5);
  for (int i = 0; i < 20; ++i) pass(usage, {});
  EXPECT_EQ(usage.recency(5), 0);
}

TEST(ExpertUsage, RecencyOfWhatIsAlwaysUsedIsBounded) {
  ExpertUsage usage(kExperts);
  for (int i = 0; i < 1000; ++i) pass(usage, std::array<ExpertId, 1>{1});
  EXPECT_LT(usage.recency(1), 1.5);
}

TEST(ExpertUsage, AGuessIsWorthMuchUntilItsTurnHasPassed) {
  ExpertUsage usage(kExperts);
  usage.used(6);
  usage.reached(0);
  usage.guessed(5);
  EXPECT_GT(usage.recency(5), usage.recency(6));
  usage.reached(kExperts);
  EXPECT_LT(usage.recency(5), usage.recency(6));
  EXPECT_EQ(usage.heat(5), 0);
}

TEST(ResidencyPolicy, LruRatesByTheLastUse) {
  ExpertUsage usage(kExperts);
  pass(usage, std::array<ExpertId, 4>{1, 2, 3, 1});
  const auto rates = worth(PolicyKind::kLru, usage, {1, 2, kNoExpert});
  EXPECT_GT(rates[0], rates[1]);
  EXPECT_EQ(rates[2], -1);
}

TEST(ResidencyPolicy, LikelihoodKeepsTheUsualAndTheLatest) {
  ExpertUsage usage(kExperts);
  for (int i = 0; i < 300; ++i) pass(usage, std::array<ExpertId, 1>{1});
  pass(usage, std::array<ExpertId, 1>{2});
  for (int i = 0; i < 6; ++i) pass(usage, {});
  pass(usage, std::array<ExpertId, 1>{3});
  const auto rates = worth(PolicyKind::kLikelihood, usage, {1, 2, 3});
  EXPECT_GT(rates[0], rates[2]);  // used in nearly every pass
  EXPECT_GT(rates[2], rates[1]);  // used once, but just now
}

}  // namespace
}  // namespace ft::experts
