#include "experts/miss_forecast.h"

#include "experts/resident_store.h"
#include "experts/streaming_test_fixture.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

using Ids = std::vector<ExpertId>;

constexpr ExpertId kExperts = 8;

// One layer of eight experts, without a store: what `resident` names is there.
class Forecast : public ::testing::Test {
 protected:
  void pass(std::size_t n_rows, const Ids& experts, std::size_t n_missing) {
    forecast_.begin_pass(n_rows);
    forecast_.begin_turn(usage_, kLayer);
    for (const ExpertId expert : experts) forecast_.asked(expert);
    forecast_.end_turn(n_missing);
    for (const ExpertId expert : experts) usage_.used(expert);
    usage_.reached(kExperts);
    forecast_.end_pass();
    usage_.end_pass();
  }
  std::vector<double> of(std::size_t n_rows, const Ids& resident = {}) {
    std::vector<double> out(n_rows);
    forecast_.begin();
    const std::span<float> chances = forecast_.chances(usage_, kLayer);
    for (const ExpertId expert : resident) chances[expert] = 0;
    forecast_.add(out);
    is_known_ = forecast_.finish(out);
    return out;
  }

  static constexpr MissForecast::Layer kLayer{0, kExperts};
  ExpertUsage usage_{kExperts};
  MissForecast forecast_{1, kExperts};
  bool is_known_ = false;
};

TEST_F(Forecast, KnowsNothingBeforeTheFirstPass) {
  EXPECT_EQ(of(3), (std::vector<double>{0, 0, 0}));
  EXPECT_FALSE(is_known_);
}

TEST_F(Forecast, AddsUpTheUnionOfIndependentRows) {
  pass(1, {0, 1}, 2);
  EXPECT_EQ(forecast_.per_row(), 2);
  // No choice was explained by reuse yet: the prior. Imagined uses 0.5 of each of 8, and two real.
  const double reuse = forecast_.reuse();
  EXPECT_EQ(reuse, 0.35);
  const double used = 2 * (reuse * 0.5 + (1 - reuse) * 1.5 / 6);
  const double unused = 2 * (1 - reuse) * 0.5 / 6;
  const std::vector<double> all = of(4);
  const std::vector<double> others = of(4, {0, 1});
  EXPECT_TRUE(is_known_);
  for (std::size_t n = 1; n <= 4; ++n) {
    const auto rows = static_cast<double>(n);
    const double from_unused = 6 * (1 - std::pow(1 - unused, rows));
    EXPECT_NEAR(others[n - 1], from_unused, 2e-3 * from_unused);
    const double from_all = from_unused + 2 * (1 - std::pow(1 - used, rows));
    EXPECT_NEAR(all[n - 1], from_all, 2e-3 * from_all);
  }
  EXPECT_NEAR(all[0], 2, 4e-3);  // a row asks for two
  EXPECT_EQ(of(2, {0, 1, 2, 3, 4, 5, 6, 7}), (std::vector<double>{0, 0}));
}

TEST_F(Forecast, LearnsHowMuchIsReused) {
  for (int i = 0; i < 200; ++i) pass(1, {1, 5}, 0);
  EXPECT_GT(forecast_.reuse(), 0.3);
  EXPECT_LT(of(1, {1, 5}).front(), 0.1);
  const double steady = forecast_.reuse();
  // Never what was used just before.
  for (ExpertId i = 0; i < 200; ++i) pass(1, {i * 2 % kExperts, (i * 2 + 1) % kExperts}, 0);
  EXPECT_LT(forecast_.reuse(), 0.1);
  EXPECT_LT(forecast_.reuse(), steady);
}

TEST_F(Forecast, AWidePassTellsAtLeastHowManyARowAsksFor) {
  pass(4, {0, 1, 2, 3, 4, 5}, 6);
  EXPECT_EQ(forecast_.per_row(), 1.5);
  pass(4, {0, 1}, 0);
  EXPECT_EQ(forecast_.per_row(), 1.5) << "at least";
  pass(1, {0, 1}, 0);
  EXPECT_EQ(forecast_.per_row(), 2);
  pass(2, {0, 1, 2, 3, 4, 5, 6, 7}, 6);
  EXPECT_EQ(forecast_.per_row(), 2) << "a row of its own has told";
}

TEST_F(Forecast, IsCalibratedByWhatPassesMiss) {
  pass(1, {0, 1}, 2);
  double before = of(2)[1];
  for (ExpertId i = 0; i < 60; ++i) {
    before = of(2)[1];
    pass(2, {i % kExperts, (i + 3) % kExperts}, 1);
  }
  EXPECT_NEAR(before, 1, 0.15);
  // Widths without a pass of their own go with the others, and never below a narrower one.
  const std::vector<double> all = of(4);
  EXPECT_GE(all[1], all[0]);
  EXPECT_GE(all[2], all[1]);
  EXPECT_LT(all[2], 3);
}

TEST_F(Forecast, NeverFallsWithTheRows) {
  pass(1, {0, 1}, 2);
  for (int i = 0; i < 40; ++i) {
    of(1);
    pass(1, {0, 1}, 6);
    of(2);
    pass(2, {0, 1}, 0);
  }
  const std::vector<double> all = of(2);
  EXPECT_GT(all[0], 2);
  EXPECT_EQ(all[1], all[0]);
}

// A forecast is of the next pass, and the last one that was finished.
TEST_F(Forecast, IsNotCalibratedByAPassItWasNotMadeFor) {
  pass(1, {0, 1}, 2);
  of(2);
  pass(2, {0, 1}, 1);
  pass(2, {0, 1}, 1000);
  EXPECT_LT(of(2)[1], 4);
  forecast_.begin();
  pass(2, {0, 1}, 1000);
  EXPECT_LT(of(2)[1], 4);
  pass(2, {0, 1}, 1000);
  EXPECT_GT(of(2)[1], 4) << "and is by the one it was made for";
}

TEST_F(Forecast, AnExpertIsAskedForOnceAtMost) {
  for (int i = 0; i < 50; ++i) pass(1, {0}, 0);
  pass(1, {0, 1, 2, 3, 4, 5}, 0);
  ASSERT_EQ(forecast_.per_row(), 6);
  for (const double of_first : of(3, {1, 2, 3, 4, 5, 6, 7})) EXPECT_EQ(of_first, 1);
}

TEST(MissForecast, OfALayerThatWasNeverUsedEveryExpertIsAsLikely) {
  ExpertUsage usage(2 * kExperts);
  MissForecast forecast(1, kExperts);
  forecast.begin_pass(1);
  forecast.begin_turn(usage, {0, kExperts});
  for (const ExpertId expert : {1U, 3U}) {
    forecast.asked(expert);
    usage.used(expert);
  }
  forecast.end_turn(0);
  forecast.end_pass();
  usage.end_pass();
  for (const float chance : forecast.chances(usage, {kExperts, kExperts})) {
    EXPECT_FLOAT_EQ(chance, 0.25F);
  }
}

// Layers of any size, in any order: the sums of a smaller one hold nothing of a larger one before.
TEST(MissForecast, LayersOfOtherSizesLeaveNothingBehind) {
  constexpr ExpertId kLarge = 24;
  constexpr ExpertId kSmall = 11;
  ExpertUsage usage(kLarge + kSmall);
  MissForecast forecast(2, kLarge);
  forecast.begin_pass(1);
  for (const MissForecast::Layer layer : {MissForecast::Layer{0, kLarge}, {kLarge, kSmall}}) {
    forecast.begin_turn(usage, layer);
    for (ExpertId i = 0; i < 3; ++i) forecast.asked(layer.first + i);
    forecast.end_turn(0);
    for (ExpertId i = 0; i < layer.n; ++i) usage.used(layer.first + i);
  }
  forecast.end_pass();
  usage.end_pass();
  ASSERT_EQ(forecast.per_row(), 3);
  std::array<double, 2> n_missing{};
  forecast.begin();
  for (const float chance : forecast.chances(usage, {0, kLarge}))
    EXPECT_FLOAT_EQ(chance, 3.0F / 24);
  forecast.add(n_missing);
  for (const float chance : forecast.chances(usage, {kLarge, kSmall}))
    EXPECT_FLOAT_EQ(chance, 3.0F / 11);
  forecast.add(n_missing);
  EXPECT_NEAR(n_missing[0], 3 + 3, 1e-4);
  EXPECT_NEAR(n_missing[1], 3 + 3 * (1 - 3.0 / 24) + 3 + 3 * (1 - 3.0 / 11), 1e-4);
}

// What is reused is told by the layer's own experts, wherever they begin.
TEST(MissForecast, LearnsReuseFromALayerThatDoesNotComeFirst) {
  ExpertUsage usage(2 * kExperts);
  MissForecast forecast(1, kExperts);
  for (int pass = 0; pass < 2; ++pass) {
    forecast.begin_pass(1);
    forecast.begin_turn(usage, {kExperts, kExperts});
    forecast.asked(kExperts + 5);
    forecast.end_turn(0);
    usage.used(kExperts + 5);
    forecast.end_pass();
    usage.end_pass();
  }
  // All of what is recent, against 1.5 of the 5 uses that are counted or imagined.
  const double as_share = 0.65 * 1.5 / 5;
  EXPECT_NEAR(forecast.reuse(), 0.35 + 0.05 * (0.35 / (0.35 + as_share) - 0.35), 1e-4);
}

TEST_F(Forecast, WidthsBeyondTheLargestAreThoseOfTheLargest) {
  pass(1, {0, 1}, 2);
  const std::vector<double> before = of(MissForecast::kMaxRows + 5, {2, 3, 4, 5, 6});
  const double largest = before[MissForecast::kMaxRows - 1];
  EXPECT_GT(largest, before[MissForecast::kMaxRows - 2]);
  for (std::size_t n = MissForecast::kMaxRows; n < before.size(); ++n)
    EXPECT_EQ(before[n], largest);
  // Nor is anything calibrated by them.
  pass(MissForecast::kMaxRows + 1, {}, 1000);
  EXPECT_LT(of(1).front(), 2.1);
}

TEST(MissForecast, APassOfSomeLayersTeachesNothing) {
  ExpertUsage usage(2 * kExperts);
  MissForecast forecast(2, kExperts);
  const auto turn = [&](ExpertId first) {
    forecast.begin_turn(usage, {first, kExperts});
    forecast.asked(first);
    forecast.end_turn(1);
  };
  forecast.begin_pass(1);
  turn(0);
  forecast.end_pass();
  EXPECT_EQ(forecast.per_row(), 0);
  forecast.begin_pass(1);
  turn(0);
  turn(kExperts);
  forecast.end_pass();
  EXPECT_EQ(forecast.per_row(), 1);
}

TEST_F(Forecast, APassThatWasCutShortTeachesNothing) {
  pass(1, {0, 1}, 2);
  const std::vector<double> before = of(3);
  forecast_.begin_pass(1);
  forecast_.end_pass();
  EXPECT_EQ(of(3), before);
}

TEST(ExpertUsage, ReadsManyAsItTellsOfEach) {
  ExpertUsage usage(12);
  for (ExpertId pass = 0; pass < 9; ++pass) {
    for (const ExpertId first : {ExpertId{0}, ExpertId{6}}) {
      usage.reached(first);
      for (ExpertId i = 0; i < 3; ++i) usage.used(first + (pass * 2 + i * pass) % 6);
      std::array<float, 9> recent{};  // the layers' border among them
      std::array<float, 9> heat{};
      usage.read(2, recent, heat);
      for (ExpertId i = 0; i < 9; ++i) {
        EXPECT_EQ(recent[i], static_cast<float>(usage.recency(2 + i))) << pass << ' ' << i;
        EXPECT_FLOAT_EQ(heat[i], static_cast<float>(usage.heat(2 + i))) << pass << ' ' << i;
      }
    }
    usage.end_pass();
  }
}

TEST(ResidentStore, ForecastsNothing) {
  ResidentStore store({});
  std::array<double, 2> bytes{1, 2};
  EXPECT_FALSE(store.forecast_missing(bytes));
  EXPECT_EQ(bytes, (std::array<double, 2>{0, 0}));
}

class StoreForecast : public StreamingTest {};

TEST_F(StoreForecast, CountsWhatIsNotResidentNowInTheTrunk) {
  StreamingStore store(options(8), deps());
  std::array<double, 3> bytes{};
  EXPECT_FALSE(store.forecast_missing(bytes));
  const auto pass = [&] {
    store.begin_pass(1);
    use(store, 1, {0, 1});
    use(store, 2, {0, 1});
    store.end_pass();
    use(store, 3, {4, 5, 6, 7});  // the draft layer's do not count
  };
  pass();
  ASSERT_TRUE(store.forecast_missing(bytes));
  // Ten experts of twelve are missing in each of two layers: 2 * 0.65 of a row's choices are by
  // share, of which 0.5 * 10 in 8 uses are theirs.
  EXPECT_NEAR(bytes[0], 2 * 10 * 2 * 0.65 * 0.5 / 8 * kExtentBytes, 1e-3 * bytes[0]);
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_LT(bytes[1], 2 * bytes[0]);
  const double first = bytes[0];
  for (int i = 0; i < 20; ++i) {
    store.forecast_missing(bytes);
    pass();
  }
  ASSERT_TRUE(store.forecast_missing(bytes));
  EXPECT_LT(bytes[0], 0.5 * first);  // they always came from the slots
}

}  // namespace
}  // namespace ft::experts
