#include "base/work_meter.h"

#include <numeric>

#include <gtest/gtest.h>

namespace ft {
namespace {

class HandClock final : public Clock {
 public:
  std::int64_t now_us() const override { return now; }
  std::int64_t now = 100;
};

TEST(WorkMeter, EveryMomentBelongsToOneStage) {
  HandClock clock;
  WorkMeter meter(clock);
  clock.now += 5;
  {
    const StageScope attention(&meter, Stage::kAttention);
    clock.now += 10;
    {
      const StageScope indexer(&meter, Stage::kIndexer);
      clock.now += 20;
    }
    clock.now += 40;
  }
  clock.now += 80;
  const WorkTotals totals = meter.totals();
  EXPECT_EQ(totals.us(Stage::kOther), 85);
  EXPECT_EQ(totals.us(Stage::kAttention), 50);
  EXPECT_EQ(totals.us(Stage::kIndexer), 20);
  EXPECT_EQ(std::accumulate(totals.stage_us.begin(), totals.stage_us.end(), std::int64_t{0}), 155);
}

TEST(WorkMeter, WhatADraftDoesIsTheDrafts) {
  HandClock clock;
  WorkMeter meter(clock);
  {
    const StageScope draft(&meter, Stage::kDraft);
    const StageScope head(&meter, Stage::kHead);
    clock.now += 7;
    meter.add_weight_bytes(3);
  }
  clock.now += 1;
  EXPECT_EQ(meter.totals().us(Stage::kDraft), 7);
  EXPECT_EQ(meter.totals().us(Stage::kHead), 0);
  EXPECT_EQ(meter.totals().us(Stage::kOther), 1);
  EXPECT_EQ(meter.totals().weight_bytes, 3U);
}

TEST(WorkMeter, TotalsAreDividedBySubtraction) {
  HandClock clock;
  WorkMeter meter(clock);
  meter.add_weight_bytes(10);
  clock.now += 2;
  const WorkTotals first = meter.totals();
  meter.add_weight_bytes(5);
  clock.now += 3;
  const WorkTotals second = meter.totals().since(first);
  EXPECT_EQ(second.us(Stage::kOther), 3);
  EXPECT_EQ(second.weight_bytes, 5U);
}

TEST(WorkMeter, NoMeterIsNoMeasurement) {
  const StageScope scope(nullptr, Stage::kHead);
  SUCCEED();
}

}  // namespace
}  // namespace ft
