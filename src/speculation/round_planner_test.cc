#include "speculation/round_planner.h"

#include "base/error.h"
#include "base/random.h"

#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr std::size_t kPlenty = kMaxDraftTokens;

TEST(CostCurve, AveragesInterpolatesAndExtrapolates) {
  CostCurve curve(0.5);
  EXPECT_TRUE(curve.is_empty());
  EXPECT_EQ(curve.predict(3), 0);
  curve.observe(1, 100);
  EXPECT_DOUBLE_EQ(curve.predict(1), 100);
  EXPECT_DOUBLE_EQ(curve.predict(3), 200) << "by the prior slope, as long as one width is measured";
  curve.observe(5, 180);
  EXPECT_DOUBLE_EQ(curve.predict(3), 140);
  EXPECT_DOUBLE_EQ(curve.predict(10), 280);
  EXPECT_TRUE(curve.is_measured(5));
  EXPECT_FALSE(curve.is_measured(4));
}

TEST(CostCurve, IsProportionalBelowWhatIsMeasured) {
  CostCurve drafts(1);
  drafts.observe(4, 80);
  EXPECT_DOUBLE_EQ(drafts.predict(0), 0);
  EXPECT_DOUBLE_EQ(drafts.predict(2), 40);
  EXPECT_DOUBLE_EQ(drafts.predict(8), 160);
}

TEST(CostCurve, OneInterruptedRoundChangesLittle) {
  CostCurve curve(0.5);
  for (int i = 0; i < 20; ++i) curve.observe(1, 100);
  curve.observe(1, 1e7);
  EXPECT_LT(curve.predict(1), 116);
}

TEST(CostCurve, FollowsALastingChangeAtEveryWidth) {
  CostCurve curve(0.5);
  for (int i = 0; i < 20; ++i) {
    curve.observe(1, 100);
    curve.observe(4, 200);
  }
  for (int i = 0; i < 40; ++i) curve.observe(4, 400);
  EXPECT_NEAR(curve.predict(4), 400, 5);
  EXPECT_GT(curve.predict(1), 130) << "what slows one width slows the others";
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

// A machine and a text: what a round costs and what is accepted.
struct World {
  std::function<double(std::size_t n_rows)> forward_us;
  std::vector<double> draft_us;  // per token, by source
  std::vector<double> offered;   // probability that the source has a draft at all
  std::function<double(std::size_t n_tokens, std::size_t source)> acceptance;
  double noise = 0.3;
};

struct Total {
  double us = 0;
  std::size_t n_tokens = 0;
  std::size_t n_drafting = 0;
  std::size_t n_probes = 0;
  std::vector<std::size_t> by_depth = std::vector<std::size_t>(kMaxDraftTokens + 1);
  std::vector<std::size_t> by_source = std::vector<std::size_t>(3);
  double us_per_token() const { return us / static_cast<double>(n_tokens); }
};

class Simulation {
 public:
  Simulation(World world, std::uint64_t seed) : world_(std::move(world)), seed_(seed) {}

  Total run(RoundPlanner& planner, std::size_t n_tokens) {
    Total total;
    while (total.n_tokens < n_tokens) {
      const RoundPlan plan = planner.plan(kPlenty);
      const RoundOutcome outcome = play(plan, total.n_tokens);
      planner.record(plan, outcome);
      total.us += static_cast<double>(outcome.draft_us + outcome.rest_us);
      total.n_tokens += outcome.n_accepted + 1;
      total.n_drafting += plan.depth > 0 ? 1 : 0;
      total.n_probes += plan.reason == PlanReason::kProbe ? 1 : 0;
      ++total.by_depth[plan.depth];
      if (plan.depth > 0) ++total.by_source[plan.source];
    }
    return total;
  }

 private:
  double uniform() { return noise_uniform(seed_, NoisePurpose::kAccept, n_draws_++, 0); }

  RoundOutcome play(const RoundPlan& plan, std::size_t n_tokens) {
    RoundOutcome outcome;
    outcome.n_asked = plan.depth;
    if (plan.depth > 0 && uniform() < world_.offered.at(plan.source))
      outcome.n_drafted = plan.depth;
    while (outcome.n_accepted < outcome.n_drafted &&
           uniform() < world_.acceptance(n_tokens, plan.source)) {
      ++outcome.n_accepted;
    }
    if (outcome.n_drafted > 0) {
      outcome.draft_us = static_cast<std::int64_t>(world_.draft_us.at(plan.source) *
                                                   static_cast<double>(outcome.n_drafted));
    }
    const double jitter = 1 + world_.noise * (uniform() - 0.5);
    outcome.rest_us = static_cast<std::int64_t>(world_.forward_us(outcome.n_drafted + 1) * jitter);
    return outcome;
  }

  World world_;
  std::uint64_t seed_;
  std::uint64_t n_draws_ = 0;
};

World one_source(double row_cost, double acceptance) {
  return {
      .forward_us =
          [row_cost](std::size_t n) { return 1000 * (1 + row_cost * static_cast<double>(n - 1)); },
      .draft_us = {100},
      .offered = {1},
      .acceptance = [acceptance](std::size_t, std::size_t) { return acceptance; }};
}

// Microseconds per token of the best depth kept for ever.
double best_fixed(const World& world, double acceptance) {
  double best = 1e18;
  for (std::size_t depth = 0; depth <= 16; ++depth) {
    double tokens = 1;
    for (std::size_t i = 1; i <= depth; ++i) tokens += std::pow(acceptance, static_cast<double>(i));
    best =
        std::min(best, (world.forward_us(depth + 1) + 100 * static_cast<double>(depth)) / tokens);
  }
  return best;
}

TEST(RoundPlanner, StartsWithTheBaseline) {
  RoundPlanner planner(1, {});
  const RoundPlan plan = planner.plan(kPlenty);
  EXPECT_EQ(plan.depth, 0u);
  EXPECT_EQ(plan.source, RoundPlan::kNoSource);
  EXPECT_EQ(plan.reason, PlanReason::kBaseline);
  EXPECT_EQ(plan.predicted_us, 0);
  planner.record(plan, {.rest_us = 800});
  EXPECT_EQ(planner.baseline_us(), 800);
  EXPECT_GT(planner.plan(kPlenty).depth, 0u) << "what looks cheap is tried";
}

TEST(RoundPlanner, DraftsNothingWithoutSourcesOrRoom) {
  RoundPlanner none(0, {});
  EXPECT_EQ(none.plan(kPlenty).reason, PlanReason::kNoSource);
  none.record(none.plan(kPlenty), {.rest_us = 500});
  EXPECT_EQ(none.plan(kPlenty).depth, 0u);
  EXPECT_EQ(none.plan(kPlenty).predicted_us, 500);
  RoundPlanner planner(1, {});
  const RoundPlan plan = planner.plan(0);
  EXPECT_EQ(plan.depth, 0u);
  EXPECT_EQ(plan.reason, PlanReason::kNoRoom);
}

TEST(RoundPlanner, NeverExceedsTheLimitOrItsOwn) {
  RoundPlanner planner(1, {.fixed_depth = std::nullopt, .max_depth = 6});
  for (std::size_t round = 0; round < 300; ++round) {
    const std::size_t limit = round % 9;
    const RoundPlan plan = planner.plan(limit);
    ASSERT_LE(plan.depth, std::min<std::size_t>(limit, 6));
    planner.record(plan, {plan.depth, plan.depth, plan.depth, 10, 1000});
  }
}

TEST(RoundPlanner, IsAValueAndAPureFunction) {
  RoundPlanner planner(2, {});
  Simulation simulation(one_source(0.2, 0.7), 1);
  RoundPlanner one(1, {});
  simulation.run(one, 200);
  const RoundPlanner copy = one;
  const RoundPlan a = one.plan(kPlenty);
  const RoundPlan b = copy.plan(kPlenty);
  EXPECT_EQ(a.depth, b.depth);
  EXPECT_EQ(a.predicted_us, b.predicted_us);
  EXPECT_EQ(a.depth, one.plan(kPlenty).depth);
}

TEST(RoundPlanner, GivesUpADrafterThatIsNeverRightAfterBoundedProbes) {
  for (const double row_cost : {0.05, 0.15, 0.35, 1.5}) {
    RoundPlanner planner(1, {});
    const Total total = Simulation(one_source(row_cost, 0), 3).run(planner, 1000);
    EXPECT_LT(total.n_drafting, 120u) << row_cost;
    EXPECT_LT(total.us_per_token(), 1020) << row_cost;
    EXPECT_EQ(total.by_depth[0], 1000 - total.n_drafting);
  }
}

TEST(RoundPlanner, GoesToTheDeepestWhereEverythingIsAcceptedAndRowsAreCheap) {
  RoundPlanner planner(1, {});
  const Total total = Simulation(one_source(0.05, 1), 4).run(planner, 1000);
  EXPECT_GE(planner.plan(kPlenty).depth, 14u);
  EXPECT_LT(total.us_per_token(), 1.1 * best_fixed(one_source(0.05, 1), 1));
}

TEST(RoundPlanner, StaysAtZeroWhereAWideForwardCostsAsMuchAsItsRows) {
  RoundPlanner planner(1, {});
  const Total total = Simulation(one_source(1.5, 0.95), 5).run(planner, 1000);
  EXPECT_LT(total.n_drafting, 30u);
  EXPECT_LT(total.us_per_token(), 1020);
}

// The two promises: near the best depth, and never much worse than not drafting. 1,000 tokens,
// noise of 15 % either way.
TEST(RoundPlanner, IsNearTheBestFixedDepthEverywhere) {
  double sum = 0;
  std::size_t n = 0;
  for (const double row_cost : {0.05, 0.15, 0.35, 0.6, 1.5}) {
    for (const double acceptance : {0.0, 0.3, 0.6, 0.8, 0.95, 1.0}) {
      const World world = one_source(row_cost, acceptance);
      double us_per_token = 0;
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        RoundPlanner planner(1, {});
        us_per_token += Simulation(world, seed).run(planner, 1000).us_per_token() / 2;
      }
      const std::string what = fmt::format("row cost {}, acceptance {}", row_cost, acceptance);
      EXPECT_LT(us_per_token, 1020) << what;
      EXPECT_LT(us_per_token, 1.10 * best_fixed(world, acceptance)) << what;
      sum += us_per_token / best_fixed(world, acceptance);
      ++n;
    }
  }
  EXPECT_LT(sum / static_cast<double>(n), 1.03);
}

TEST(RoundPlanner, FindsASuddenDropOfTheCostCurve) {
  // Up to four rows are nearly free, the fifth costs a whole pass: depth 3 is the place.
  World world = one_source(0, 0.85);
  world.forward_us = [](std::size_t n) {
    return n <= 4 ? 1000 + 20.0 * static_cast<double>(n) : 2000.0;
  };
  RoundPlanner planner(1, {});
  const Total total = Simulation(world, 6).run(planner, 1000);
  EXPECT_GT(total.by_depth[3] * 3, total.n_drafting * 2);
}

TEST(RoundPlanner, FollowsTheTextFromProseToCodeAndBack) {
  // 250 tokens of each kind in turn; kept apart, the two kinds would take about 480 and 1000 us per
  // token.
  World world = one_source(0.15, 0);
  world.acceptance = [](std::size_t n_tokens, std::size_t) {
    return (n_tokens / 250) % 2 == 0 ? 0.9 : 0.05;
  };
  double us_per_token = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RoundPlanner planner(1, {});
    us_per_token += Simulation(world, seed).run(planner, 2000).us_per_token() / 5;
  }
  EXPECT_LT(us_per_token, 1.1 * 740);
}

TEST(RoundPlanner, ChoosesTheSourceThatPays) {
  World world = one_source(0.15, 0);
  world.draft_us = {150, 2};
  world.offered = {1, 0.9};
  world.acceptance = [](std::size_t, std::size_t source) { return source == 0 ? 0.6 : 0.9; };
  RoundPlanner planner(2, {});
  const Total copying = Simulation(world, 8).run(planner, 1000);
  EXPECT_GT(copying.by_source[1], 4 * copying.by_source[0]);

  world.offered = {1, 0.1};
  world.acceptance = [](std::size_t, std::size_t source) { return source == 0 ? 0.8 : 0.5; };
  RoundPlanner other(2, {});
  const Total prose = Simulation(world, 8).run(other, 1000);
  EXPECT_GT(prose.by_source[0], 4 * prose.by_source[1]);
}

TEST(RoundPlanner, AFixedDepthIsKept) {
  RoundPlanner planner(1, {.fixed_depth = 3, .max_depth = 16});
  const Total total = Simulation(one_source(1.5, 0), 9).run(planner, 200);
  EXPECT_EQ(total.by_depth[3], 200u);
  EXPECT_EQ(planner.plan(kPlenty).reason, PlanReason::kFixed);
  EXPECT_EQ(planner.plan(2).depth, 2u) << "limits come first";
  EXPECT_EQ(planner.plan(0).depth, 0u);
  RoundPlanner off(1, {.fixed_depth = 0, .max_depth = 16});
  EXPECT_EQ(off.plan(kPlenty).depth, 0u);
}

TEST(RoundPlanner, WithAFixedDepthTheSourceIsStillChosen) {
  World world = one_source(0.15, 0);
  world.draft_us = {100, 2};
  world.offered = {1, 1};
  world.acceptance = [](std::size_t, std::size_t source) { return source == 0 ? 0.3 : 0.8; };
  RoundPlanner planner(2, {.fixed_depth = 3, .max_depth = 16});
  const Total total = Simulation(world, 10).run(planner, 600);
  EXPECT_GT(total.by_source[1], 3 * total.by_source[0]);
  EXPECT_EQ(total.by_depth[3], total.by_source[0] + total.by_source[1]);
}

TEST(RoundPlanner, RefusesDepthsThatNoRoundCanHave) {
  EXPECT_THROW(RoundPlanner(1, {.fixed_depth = 65, .max_depth = 16}), InvalidInput);
  EXPECT_THROW(RoundPlanner(1, {.fixed_depth = std::nullopt, .max_depth = 100}), InvalidInput);
}

TEST(RoundPlanner, EveryReasonHasAName) {
  for (const PlanReason reason : {PlanReason::kNoSource,
                                  PlanReason::kNoRoom,
                                  PlanReason::kFixed,
                                  PlanReason::kBaseline,
                                  PlanReason::kBest,
                                  PlanReason::kHeld,
                                  PlanReason::kProbe}) {
    EXPECT_NE(to_string(reason), "unknown");
  }
}

}  // namespace
}  // namespace ft::speculation
