// What the planner knows of a machine and a text: the cost of a forward and what is accepted.
#include "speculation/round_planner.h"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr CostCurve::Prior kPrior = {.slope = 0.5, .deviation = 0.3};

TEST(CostCurve, InterpolatesAndExtrapolates) {
  CostCurve curve(kPrior);
  EXPECT_TRUE(curve.is_empty());
  EXPECT_EQ(curve.predict(3), 0);
  curve.observe(1, 100);
  EXPECT_DOUBLE_EQ(curve.predict(1), 100);
  EXPECT_DOUBLE_EQ(curve.predict(3), 200) << "by the prior slope, as long as one n is measured";
  for (int i = 0; i < 5; ++i) {
    curve.observe(1, 100);
    curve.observe(5, 180);
  }
  EXPECT_NEAR(curve.predict(1), 100, 4);
  EXPECT_NEAR(curve.predict(3), 140, 4);
  EXPECT_NEAR(curve.predict(10), 280, 12);
  EXPECT_EQ(curve.n_observed(5), 5u);
  EXPECT_EQ(curve.n_observed(4), 0u);
}

TEST(CostCurve, IsProportionalBelowWhatIsMeasured) {
  CostCurve drafts({.slope = 1, .deviation = 0.3});
  drafts.observe(4, 80);
  EXPECT_NEAR(drafts.predict(0), 0, 0.01);
  EXPECT_DOUBLE_EQ(drafts.predict(2), 40);
  EXPECT_DOUBLE_EQ(drafts.predict(8), 160);
}

// Widths 1 … 8 cost 100 + 20 n, but for one that costs a quarter more.
TEST(CostCurve, LearnsWhereAWidthLeavesTheLine) {
  CostCurve curve(kPrior);
  for (int i = 0; i < 30; ++i) {
    for (std::size_t n = 1; n <= 8; ++n)
      curve.observe(n, (100 + 20 * static_cast<double>(n)) * (n == 5 ? 1.25 : 1));
  }
  EXPECT_NEAR(curve.predict(4), 180, 10);
  EXPECT_NEAR(curve.predict(5), 250, 15);
  EXPECT_NEAR(curve.predict(6), 220, 11);
}

TEST(CostCurve, AColdFirstMeasurementIsBelievedInPart) {
  CostCurve curve(kPrior);
  curve.observe(1, 100);
  curve.observe(1, 100);
  curve.observe(3, 9000);
  EXPECT_LT(curve.predict(3), 500);
  EXPECT_LT(curve.predict(1), 130);
  curve.observe(3, 210);
  curve.observe(3, 210);
  EXPECT_NEAR(curve.predict(3), 210, 40);
}

TEST(CostCurve, ACostThatIsMeasuredAgainIsBelieved) {
  CostCurve curve(kPrior);
  curve.observe(1, 100);
  for (int i = 0; i < 6; ++i) curve.observe(3, 400);
  EXPECT_NEAR(curve.predict(3), 400, 40);
}

// Cold memory and a busy machine: what was measured before a much faster round is given up.
TEST(CostCurve, AMuchFasterMeasurementStartsAnew) {
  CostCurve curve(kPrior);
  for (int i = 0; i < 3; ++i) curve.observe(1, 5000);
  curve.observe(3, 200);
  EXPECT_DOUBLE_EQ(curve.predict(3), 200);
  EXPECT_NEAR(curve.predict(1), 133, 1);
}

TEST(CostCurve, OneInterruptedRoundChangesLittle) {
  CostCurve curve(kPrior);
  for (int i = 0; i < 20; ++i) curve.observe(1, 100);
  curve.observe(1, 1e7);
  EXPECT_LT(curve.predict(1), 116);
}

TEST(CostCurve, FollowsALastingChangeAtEveryWidth) {
  CostCurve curve(kPrior);
  for (int i = 0; i < 20; ++i) {
    curve.observe(1, 100);
    curve.observe(4, 200);
  }
  for (int i = 0; i < 40; ++i) curve.observe(4, 400);
  EXPECT_NEAR(curve.predict(4), 400, 45);
  EXPECT_GT(curve.predict(1), 130) << "what slows one width slows the others";
}

TEST(CostCurve, DoubtsWhatWasSeldomOrLongNotMeasured) {
  CostCurve curve(kPrior);
  curve.observe(1, 100);
  for (int i = 0; i < 30; ++i) curve.observe(2, 120);
  const double recent = curve.doubt(2);
  EXPECT_LT(recent, curve.doubt(1));
  EXPECT_LT(curve.doubt(1), curve.doubt(3));
  EXPECT_LT(curve.doubt(3), 0.1);
  for (int i = 0; i < 300; ++i) curve.observe(1, 100);
  EXPECT_GT(curve.doubt(2), 2 * recent);
}

TEST(ReadCosts, LearnTheRateAndHowFarAPredictionIsRight) {
  ReadCosts costs;
  const std::vector<double> predicted = {1000, 1500, 2000};
  EXPECT_EQ(costs.stall_us(1, 1000), 0) << "nothing was read yet";
  for (std::size_t i = 0; i < 30; ++i)
    costs.observe(predicted, 1 + i % 3, 2 * predicted[i % 3], 50);
  EXPECT_NEAR(costs.stall_us(2, 1500), 50, 5);
  EXPECT_EQ(costs.believed(predicted), predicted) << "as always";
}

TEST(ReadCosts, BelieveAForecastAsFarAsItTells) {
  ReadCosts right;
  ReadCosts noise;
  for (int i = 0; i < 60; ++i) {
    const std::vector<double> predicted(2, i % 2 == 0 ? 500 : 1500);
    right.observe(predicted, 1, predicted[0], 10);
    noise.observe(predicted, 1, i % 4 < 2 ? 500 : 1500, 10);
  }
  const std::vector<double> next(2, 1500);
  EXPECT_GT(right.believed(next)[1], 1350);
  EXPECT_LT(noise.believed(next)[1], 1150);
}

TEST(AcceptanceHistory, EstimatesConditionalAcceptance) {
  AcceptanceHistory history;
  for (int i = 0; i < 400; ++i) history.observe(3, 3, i % 2 == 0 ? 1 : 3);
  const auto estimates = history.estimate(4);
  EXPECT_NEAR(estimates[0].accepted, 1, 0.05);
  EXPECT_NEAR(estimates[1].accepted, 0.5, 0.07);
  EXPECT_NEAR(estimates[2].accepted, 1, 0.1) << "given that the second stood";
  EXPECT_DOUBLE_EQ(estimates[3].accepted, estimates[2].accepted)
      << "never tried: as the one before";
}

TEST(AcceptanceHistory, CountsADraftThatDidNotComeAsNotAccepted) {
  AcceptanceHistory history;
  for (int i = 0; i < 200; ++i) history.observe(2, i % 2 == 0 ? 0 : 2, i % 2 == 0 ? 0 : 2);
  const auto estimates = history.estimate(2);
  EXPECT_NEAR(estimates[0].accepted, 0.5, 0.05);
  EXPECT_NEAR(estimates[0].offered, 0.5, 0.08);
  EXPECT_NEAR(estimates[1].offered, 0.5, 0.08);
  EXPECT_NEAR(estimates[1].accepted, 1, 0.1);
}

TEST(AcceptanceHistory, ForgetsWhenARunOfOutcomesIsNextToImpossible) {
  AcceptanceHistory history;
  for (int i = 0; i < 100; ++i) history.observe(1, 1, 1);
  for (int i = 0; i < 5; ++i) history.observe(1, 1, 0);
  EXPECT_LT(history.estimate(1)[0].accepted, 0.5) << "counts alone would say 0.7";
}

// What is made of numbers again goes on as what they were taken of.
struct Learned {
  ContextCosts costs{kPrior};
  ReadCosts reads;
  AcceptanceHistory history;

  void learn(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int i = 0; i < 100; ++i) {
      const std::size_t n = 1 + below(12);
      costs.observe(below(3000), n, static_cast<double>(500 + below(1000)) / 3);
      const std::vector<double> predicted(17, static_cast<double>(below(5000)) / 7);
      reads.observe(predicted, n, static_cast<double>(below(5000)), static_cast<double>(below(99)));
      const std::size_t drafted = below(n + 1);
      history.observe(n, drafted, below(drafted + 1));
    }
  }
  std::vector<std::vector<double>> numbers() const {
    std::vector<std::vector<double>> out = costs.numbers().curves;
    out.push_back({static_cast<double>(costs.numbers().latest)});
    out.push_back(reads.numbers());
    out.push_back(history.numbers());
    return out;
  }
};

TEST(Numbers, MakeTheSameAgain) {
  Learned first;
  first.learn(1);
  Learned second;
  second.costs.set_numbers(first.costs.numbers(), "costs");
  second.reads.set_numbers(first.reads.numbers(), "reads");
  second.history.set_numbers(first.history.numbers(), "history");
  EXPECT_EQ(second.numbers(), first.numbers());
  first.learn(2);
  second.learn(2);
  EXPECT_EQ(second.numbers(), first.numbers());
}

TEST(Numbers, OfNothingAreNone) {
  const Learned nothing;
  EXPECT_EQ(nothing.numbers(), (std::vector<std::vector<double>>{{0}, {}, {}}));
}

}  // namespace
}  // namespace ft::speculation
