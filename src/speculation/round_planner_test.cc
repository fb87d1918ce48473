#include "speculation/round_planner.h"

#include "base/error.h"
#include "base/random.h"

#include <array>
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr PlanInputs kAnything{.max_drafts = kMaxDraftTokens};

// A machine and a text: what a round costs and what is accepted.
struct World {
  std::function<double(std::size_t n_rows)> forward_us;
  std::vector<double> draft_us;  // per token, by source
  std::vector<double> offered;   // probability that the source has a draft at all
  std::function<double(std::size_t n_tokens, std::size_t source)> acceptance;
  double acceptance_step = 0;  // what a draft is accepted less often than the one before it
  double noise = 0.3;
  double preempted = 0;     // share of rounds that take two to ten times as long
  double cold_draft = 1;    // factor of the first drafts ...
  double cold_forward = 1;  // ... of the first forwards and of the first wide ones
  std::size_t n_cold = 1;   // so many of each
};

struct Total {
  double us = 0;
  double quiet_us = 0;  // without noise, preemption and cold memory: what the choices cost
  std::size_t n_tokens = 0;
  std::size_t n_drafting = 0;
  std::size_t n_probes = 0;
  std::vector<std::size_t> by_depth = std::vector<std::size_t>(kMaxDraftTokens + 1);
  std::vector<std::size_t> by_source = std::vector<std::size_t>(3);
  double us_per_token() const { return us / static_cast<double>(n_tokens); }
  double quiet_us_per_token() const { return quiet_us / static_cast<double>(n_tokens); }
};

class Simulation {
 public:
  Simulation(World world, std::uint64_t seed) : world_(std::move(world)), seed_(seed) {}

  Total run(RoundPlanner& planner, std::size_t n_tokens) {
    Total total;
    while (total.n_tokens < n_tokens) step(planner, total);
    return total;
  }

  Total run_rounds(RoundPlanner& planner, std::size_t n_rounds) {
    Total total;
    for (std::size_t round = 0; round < n_rounds; ++round) step(planner, total);
    return total;
  }

 private:
  double uniform() { return noise_uniform(seed_, NoisePurpose::kAccept, n_draws_++, 0); }

  void step(RoundPlanner& planner, Total& total) {
    const RoundPlan plan = planner.plan(kAnything);
    const RoundOutcome outcome = play(plan, total);
    planner.record(plan, outcome);
    total.us += static_cast<double>(outcome.draft_us + outcome.rest_us);
    total.n_tokens += outcome.n_accepted + 1;
    total.n_drafting += plan.depth() > 0 ? 1 : 0;
    total.n_probes += plan.reason == PlanReason::kProbe ? 1 : 0;
    ++total.by_depth[plan.depth()];
    if (plan.depth() > 0) ++total.by_source[plan.parts.front().source];
  }

  RoundOutcome play(const RoundPlan& plan, Total& total) {
    RoundOutcome outcome;
    const std::size_t depth = plan.depth();
    const std::size_t source = depth > 0 ? plan.parts.front().source : 0;
    const std::size_t n_drafted = depth > 0 && uniform() < world_.offered.at(source) ? depth : 0;
    if (depth > 0) outcome.parts = {{depth, n_drafted}};
    while (outcome.n_accepted < n_drafted &&
           uniform() < world_.acceptance(total.n_tokens, source) -
                           world_.acceptance_step * static_cast<double>(outcome.n_accepted)) {
      ++outcome.n_accepted;
    }
    double draft_us =
        n_drafted == 0 ? 0 : world_.draft_us.at(source) * static_cast<double>(n_drafted);
    double rest_us = world_.forward_us(n_drafted + 1);
    total.quiet_us += draft_us + rest_us;
    rest_us *= 1 + world_.noise * (uniform() - 0.5);
    if (world_.preempted > 0 && uniform() < world_.preempted) {
      const double factor = 2 + 8 * uniform();
      draft_us *= factor;
      rest_us *= factor;
    }
    std::size_t& n_before = n_drafted > 0 ? n_drafting_ : n_rounds_;
    if (n_before < world_.n_cold) {
      draft_us *= world_.cold_draft;
      rest_us *= world_.cold_forward;
    }
    if (n_drafted > 0) ++n_drafting_;
    ++n_rounds_;
    outcome.draft_us = static_cast<std::int64_t>(draft_us);
    outcome.rest_us = static_cast<std::int64_t>(rest_us);
    return outcome;
  }

  World world_;
  std::uint64_t seed_;
  std::uint64_t n_draws_ = 0;
  std::size_t n_rounds_ = 0;
  std::size_t n_drafting_ = 0;
};

World one_source(double row_cost, double acceptance) {
  return {
      .forward_us =
          [row_cost](std::size_t n) { return 1000 * (1 + row_cost * static_cast<double>(n - 1)); },
      .draft_us = {100},
      .offered = {1},
      .acceptance = [acceptance](std::size_t, std::size_t) { return acceptance; }};
}

// Microseconds per token of source 0 at one depth.
double fixed_us(const World& world, std::size_t depth) {
  double tokens = 1;
  double reached = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    reached *=
        std::max(0.0, world.acceptance(0, 0) - world.acceptance_step * static_cast<double>(i));
    tokens += reached;
  }
  const double draft_us = world.draft_us[0] * static_cast<double>(depth);
  return (world.forward_us(depth + 1) + draft_us) / tokens;
}

// The same of the best depth kept for ever.
double best_fixed(const World& world) {
  double best = fixed_us(world, 0);
  for (std::size_t depth = 1; depth <= 16; ++depth) best = std::min(best, fixed_us(world, depth));
  return best;
}

TEST(RoundPlanner, StartsWithTheBaseline) {
  RoundPlanner planner(1, {});
  for (const std::int64_t us : {4000, 800}) {  // the first round is cold
    const RoundPlan plan = planner.plan(kAnything);
    EXPECT_EQ(plan.depth(), 0u);
    EXPECT_TRUE(plan.parts.empty());
    EXPECT_EQ(plan.reason, PlanReason::kBaseline);
    planner.record(plan, {.rest_us = us});
  }
  EXPECT_NEAR(planner.plan(kAnything).baseline_us, 800, 80);
  EXPECT_GT(planner.plan(kAnything).depth(), 0u) << "what looks cheap is tried";
}

// A round of n drafts, all of them right, on a machine where rows cost next to nothing.
RoundOutcome cheap_round(const RoundPlan& plan) {
  RoundOutcome out{.n_accepted = plan.depth(), .rest_us = 1000};
  for (const RoundPlan::Part& part : plan.parts) out.parts.push_back({part.depth, part.depth});
  return out;
}

TEST(RoundPlanner, DraftsAtMostTwiceAsManyAsThereEverWere) {
  RoundPlanner planner(1, {});
  std::size_t deepest = 2;
  for (int round = 0; round < 60; ++round) {
    const RoundPlan plan = planner.plan(kAnything);
    EXPECT_LE(plan.depth(), 2 * deepest) << round;
    deepest = std::max(deepest, plan.depth());
    planner.record(plan, cheap_round(plan));
  }
  EXPECT_EQ(deepest, 16u);
}

TEST(RoundPlanner, MeasuresTheBaselineLessOftenWhereDraftsWinByFar) {
  // The first draft is always right, and no other.
  const auto n_baselines = [](std::int64_t row_us) {
    RoundPlanner planner(1, {});
    std::size_t n = 0;
    for (int round = 0; round < 2000; ++round) {
      const RoundPlan plan = planner.plan(kAnything);
      const auto depth = static_cast<std::int64_t>(plan.depth());
      RoundOutcome outcome{.n_accepted = depth > 0 ? 1u : 0u,
                           .draft_us = 100 * depth,
                           .rest_us = 1000 + row_us * depth};
      if (depth > 0) outcome.parts = {{plan.depth(), plan.depth()}};
      if (round >= 200 && depth == 0) ++n;
      planner.record(plan, outcome);
    }
    return n;
  };
  const std::size_t n_close = n_baselines(700);  // 1.11 times as fast as without drafts
  EXPECT_GT(n_close, 40u);
  EXPECT_LT(2 * n_baselines(550), n_close) << "1.21 times";
}

// A source that has slept feeds what it missed before it drafts: its probes are charged with that.
TEST(RoundPlanner, ProbesThatMustCatchUpAreSeldom) {
  const auto n_probes = [](std::int64_t catch_up_us) {
    RoundPlanner planner(1, {});
    std::size_t n = 0;
    std::size_t slept = 0;
    for (int round = 0; round < 2000; ++round) {
      const RoundPlan plan = planner.plan(kAnything);
      RoundOutcome outcome{.rest_us = 1000};
      if (const std::size_t depth = plan.depth(); depth > 0) {
        outcome.parts = {{depth, depth}};
        outcome.draft_us = 100 + (slept > 8 ? catch_up_us : 0);
        outcome.rest_us = 1000 + 50 * static_cast<std::int64_t>(depth);
        if (round >= 200) ++n;
        slept = 0;
      }
      ++slept;
      planner.record(plan, outcome);
    }
    return n;
  };
  EXPECT_GT(n_probes(0), 30u);
  EXPECT_LT(2 * n_probes(2000), n_probes(0));
}

TEST(RoundPlanner, DraftsNothingWithoutSourcesOrRoom) {
  RoundPlanner none(0, {});
  EXPECT_EQ(none.plan(kAnything).reason, PlanReason::kNoSource);
  none.record(none.plan(kAnything), {.rest_us = 500});
  EXPECT_EQ(none.plan(kAnything).depth(), 0u);
  EXPECT_EQ(none.plan(kAnything).predicted_us, 500);
  RoundPlanner planner(1, {});
  const RoundPlan plan = planner.plan({.max_drafts = 0});
  EXPECT_EQ(plan.depth(), 0u);
  EXPECT_EQ(plan.reason, PlanReason::kNoRoom);
}

TEST(RoundPlanner, NeverExceedsTheLimitOrItsOwn) {
  RoundPlanner planner(1, {.fixed_depth = std::nullopt, .max_depth = 6});
  for (std::size_t round = 0; round < 300; ++round) {
    const std::size_t limit = round % 9;
    const RoundPlan plan = planner.plan({.max_drafts = limit});
    ASSERT_LE(plan.depth(), std::min<std::size_t>(limit, 6));
    const std::vector<RoundOutcome::Part> parts(plan.parts.size(), {plan.depth(), plan.depth()});
    planner.record(plan,
                   {.parts = parts, .n_accepted = plan.depth(), .draft_us = 10, .rest_us = 1000});
  }
}

TEST(RoundPlanner, IsAValueAndAPureFunction) {
  RoundPlanner planner(2, {});
  Simulation simulation(one_source(0.2, 0.7), 1);
  RoundPlanner one(1, {});
  simulation.run(one, 200);
  const RoundPlanner copy = one;
  const RoundPlan a = one.plan(kAnything);
  const RoundPlan b = copy.plan(kAnything);
  EXPECT_EQ(a.depth(), b.depth());
  EXPECT_EQ(a.predicted_us, b.predicted_us);
  EXPECT_EQ(a.depth(), one.plan(kAnything).depth());
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
  EXPECT_GE(planner.plan(kAnything).depth(), 14u);
  EXPECT_LT(total.us_per_token(), 1.1 * best_fixed(one_source(0.05, 1)));
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
      EXPECT_LT(us_per_token, 1.10 * best_fixed(world)) << what;
      sum += us_per_token / best_fixed(world);
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

// A busy machine: the first draft and the first wide forward find cold memory, one round in twenty
// is preempted. A good source must be found all the same.
TEST(RoundPlanner, FindsAGoodSourceOnABusyAndColdMachine) {
  World world = one_source(0.2, 0);
  world.draft_us = {150, 2};
  world.offered = {1, 0.15};
  world.acceptance = [](std::size_t, std::size_t source) { return source == 0 ? 0.8 : 0.5; };
  world.preempted = 0.05;
  world.cold_draft = 20;
  world.cold_forward = 6;
  std::size_t n_drafting = 0;
  std::size_t n_rounds = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RoundPlanner planner(2, {});
    const Total total = Simulation(world, seed).run(planner, 500);
    n_drafting += total.by_source[0];
    for (const std::size_t n : total.by_depth) n_rounds += n;
  }
  EXPECT_GT(10 * n_drafting, 7 * n_rounds);
}

// A small model on a busy machine: 520 us a round, the first rounds of each kind three times as
// long, one in ten preempted.
World busy_machine(double row_us, double draft_us, double acceptance) {
  return {
      .forward_us = [row_us](std::size_t n) { return 520 + row_us * static_cast<double>(n - 1); },
      .draft_us = {draft_us},
      .offered = {1},
      .acceptance = [acceptance](std::size_t, std::size_t) { return acceptance; },
      .acceptance_step = 0.05,
      .noise = 0.1,
      .preempted = 0.1,
      .cold_draft = 3,
      .cold_forward = 3,
      .n_cold = 3};
}

constexpr std::uint64_t kSeeds = 40;
constexpr std::size_t kSettled = 60;  // rounds after which a planner should know its way

TEST(RoundPlanner, FindsTheBestDepthOnABusyMachineWhereDraftsPay) {
  struct Case {
    double row_us, draft_us, acceptance;
    std::size_t best_depth;
  };
  for (const Case& c : {Case{165, 90, 0.85, 2},
                        Case{90, 60, 0.9, 3},
                        Case{60, 40, 0.93, 4},
                        Case{40, 30, 0.96, 5}}) {
    const World world = busy_machine(c.row_us, c.draft_us, c.acceptance);
    const double best_us = best_fixed(world);
    ASSERT_DOUBLE_EQ(best_us, fixed_us(world, c.best_depth));
    ASSERT_LT(1.1 * best_us, fixed_us(world, 0));
    double us_per_token = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      RoundPlanner planner(1, {});
      Simulation simulation(world, seed);
      simulation.run_rounds(planner, kSettled);
      const Total total = simulation.run_rounds(planner, 300);
      us_per_token += total.quiet_us_per_token() / kSeeds;
      const std::string what = fmt::format("row {} us, seed {}", c.row_us, seed);
      EXPECT_LT(total.by_depth[0], 40u) << what;
      EXPECT_LT(total.quiet_us_per_token(), 1.26 * best_us) << what;
    }
    EXPECT_LT(us_per_token, 1.04 * best_us) << c.row_us;
  }
}

TEST(RoundPlanner, LosesLittleOnABusyMachineWhereDraftsDoNotPay) {
  struct Case {
    double row_us, draft_us, acceptance;
    double most = 1.02;  // of the best, mean of all seeds
  };
  for (const Case& c : {Case{165, 90, 0.45},
                        Case{165, 90, 0.3},
                        Case{165, 90, 0.05},
                        Case{520, 90, 0.85, 1.03},  // a round that only looks cheap costs most
                        Case{60, 40, 0.05}}) {
    const World world = busy_machine(c.row_us, c.draft_us, c.acceptance);
    const double best_us = fixed_us(world, 0);
    ASSERT_DOUBLE_EQ(best_fixed(world), best_us);
    double us_per_token = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      RoundPlanner planner(1, {});
      const Total total = Simulation(world, seed).run_rounds(planner, 1000);
      us_per_token += total.quiet_us_per_token() / kSeeds;
    }
    EXPECT_LT(us_per_token, c.most * best_us)
        << fmt::format("row {} us, acceptance {}", c.row_us, c.acceptance);
  }
}

TEST(RoundPlanner, AFixedDepthIsKept) {
  RoundPlanner planner(1, {.fixed_depth = 3, .max_depth = 16});
  const Total total = Simulation(one_source(1.5, 0), 9).run(planner, 200);
  EXPECT_EQ(total.by_depth[3], 200u);
  EXPECT_EQ(planner.plan(kAnything).reason, PlanReason::kFixed);
  EXPECT_EQ(planner.plan({.max_drafts = 2}).depth(), 2u) << "limits come first";
  EXPECT_EQ(planner.plan({.max_drafts = 0}).depth(), 0u);
  RoundPlanner off(1, {.fixed_depth = 0, .max_depth = 16});
  EXPECT_EQ(off.plan(kAnything).depth(), 0u);
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

TEST(RoundPlanner, ASuccessorNeedNotTryWhatWasTried) {
  for (const double acceptance : {0.0, 0.95}) {
    const World world = one_source(0.3, acceptance);
    RoundPlanner first(1, {});
    Simulation(world, 1).run(first, 200);
    RoundPlanner next(first.experience(), {});
    const Total total = Simulation(world, 2).run_rounds(next, 100);
    if (acceptance > 0) {
      EXPECT_GE(total.n_drafting, 98u);
    } else {
      EXPECT_LE(total.quiet_us, 103 * world.forward_us(1));
    }
  }
}

}  // namespace
}  // namespace ft::speculation
