// Offers, two drafters in a window, missing experts and the length of the context.
#include "base/random.h"
#include "speculation/round_planner.h"

#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using Offers = std::vector<std::optional<Offer>>;

// 480 us a row, a further one 34; source 0 drafts for 20 us a step, source 1 looks its drafts up.
struct Machine {
  double looked_up = 0.9;  // acceptance of what source 1 offers
  double drafted = 0.8;    // of what source 0 drafts, alone ...
  double behind = 0.8;     // ... and behind the other
  std::uint64_t n_draws = 0;

  bool accepts(double probability) {
    return noise_uniform(7, NoisePurpose::kAccept, n_draws++, 0) < probability;
  }

  RoundOutcome play(const RoundPlan& plan) {
    RoundOutcome outcome;
    bool stands = true;
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
      const RoundPlan::Part& part = plan.parts[i];
      outcome.parts.push_back({part.depth, part.depth});
      const double probability = part.source == 1 ? looked_up : i == 0 ? drafted : behind;
      for (std::size_t k = 0; k < part.depth && stands; ++k) {
        stands = accepts(probability);
        if (stands) ++outcome.n_accepted;
      }
    }
    const auto depth = static_cast<std::int64_t>(plan.depth());
    if (depth > 0 && plan.parts.back().source == 0) outcome.draft_us = 20 * depth;
    outcome.rest_us = 480 + 34 * depth;
    return outcome;
  }
};

struct Counts {
  std::size_t n_rounds = 0;
  std::size_t n_pairs = 0;
  std::size_t n_lookups = 0;  // source 1 alone
  std::size_t n_drafts = 0;   // source 0 alone
};

Counts play(RoundPlanner& planner, Machine& machine, const Offers& offers, std::size_t n_rounds) {
  Counts counts;
  for (; counts.n_rounds < n_rounds; ++counts.n_rounds) {
    const RoundPlan plan = planner.plan({.max_drafts = 16, .offers = offers});
    if (plan.parts.size() == 2) ++counts.n_pairs;
    if (plan.parts.size() == 1) ++(plan.parts[0].source == 1 ? counts.n_lookups : counts.n_drafts);
    planner.record(plan, machine.play(plan));
  }
  return counts;
}

TEST(PlannerOffers, AreWhatASourceIsAskedForAtMost) {
  RoundPlanner planner(2, {});
  Machine machine;
  for (std::size_t round = 0; round < 300; ++round) {
    const Offers offers = {std::nullopt, Offer{round % 4, 1}};
    const RoundPlan plan = planner.plan({.max_drafts = 16, .offers = offers});
    for (const RoundPlan::Part& part : plan.parts) {
      if (part.source == 0) continue;
      ASSERT_LE(part.depth, round % 4);
      ASSERT_EQ(part.strength, 1u);
    }
    planner.record(plan, machine.play(plan));
  }
}

TEST(PlannerOffers, OfNothingAreNoChoice) {
  RoundPlanner planner(1, {});
  const Offers offers = {Offer{0, 3}};
  for (std::size_t round = 0; round < 100; ++round) {
    const RoundPlan plan = planner.plan({.max_drafts = 16, .offers = offers});
    ASSERT_TRUE(plan.parts.empty());
    planner.record(plan, {.rest_us = 480});
  }
  RoundPlanner fixed(2, {.fixed_depth = 4, .max_depth = 16});
  const Offers none = {Offer{0, 3}, Offer{0, 0}};
  EXPECT_TRUE(fixed.plan({.max_drafts = 16, .offers = none}).parts.empty());
}

TEST(PlannerOffers, AreLearnedByTheirStrength) {
  RoundPlanner planner(2, {});
  Machine machine{.looked_up = 0, .drafted = 0};
  const Offers weak = {Offer{0, 0}, Offer{4, 0}};
  const Offers strong = {Offer{0, 0}, Offer{4, 3}};
  std::size_t n_weak = 0;
  std::size_t n_strong = 0;
  for (std::size_t round = 0; round < 400; ++round) {
    machine.looked_up = round % 2 == 0 ? 0.02 : 0.95;
    const Counts counts = play(planner, machine, round % 2 == 0 ? weak : strong, 1);
    (round % 2 == 0 ? n_weak : n_strong) += counts.n_lookups;
  }
  EXPECT_LT(n_weak, 40u);
  EXPECT_GT(n_strong, 180u);
}

TEST(PlannerWindows, HaveATailBehindAShortOfferWhereBothAreMostlyRight) {
  RoundPlanner planner(2, {});
  Machine machine{.looked_up = 0.97, .drafted = 0.8, .behind = 0.8};
  const Counts counts = play(planner, machine, {std::nullopt, Offer{2, 2}}, 200);
  EXPECT_GT(counts.n_pairs, 120u);
}

TEST(PlannerWindows, HaveNoTailThatIsNeverRight) {
  RoundPlanner planner(2, {});
  Machine machine{.looked_up = 0.97, .drafted = 0.8, .behind = 0};
  play(planner, machine, {std::nullopt, Offer{2, 2}}, 60);
  const Counts counts = play(planner, machine, {std::nullopt, Offer{2, 2}}, 200);
  EXPECT_LT(counts.n_pairs, 20u);
}

TEST(PlannerWindows, OfAFixedDepthAreFilled) {
  RoundPlanner planner(2, {.fixed_depth = 5, .max_depth = 16});
  Machine machine{.looked_up = 0.97};
  const Offers offers = {std::nullopt, Offer{2, 2}};
  for (std::size_t round = 0; round < 60; ++round) {
    const RoundPlan plan = planner.plan({.max_drafts = 16, .offers = offers});
    if (plan.parts.size() == 2) {
      ASSERT_EQ(plan.depth(), 5u);
    }
    planner.record(plan, machine.play(plan));
  }
}

TEST(PlannerContext, CostsGrowWithIt) {
  RoundPlanner planner(1, {});
  const auto row_us = [](std::size_t context) { return 500 + static_cast<double>(context) / 4; };
  std::size_t n_far = 0;
  for (std::size_t context = 100; context < 40'000; context += 50) {
    const RoundPlan plan = planner.plan({.max_drafts = 16, .context = context});
    const double us = row_us(context) * (1 + 0.1 * static_cast<double>(plan.depth()));
    if (context > 2000 && std::abs(plan.predicted_us - us) > 0.2 * us) ++n_far;
    RoundOutcome outcome{.rest_us = static_cast<std::int64_t>(us)};
    if (plan.depth() > 0) outcome.parts = {{plan.depth(), plan.depth()}};
    outcome.n_accepted = std::min<std::size_t>(plan.depth(), 2);
    planner.record(plan, outcome);
  }
  EXPECT_LT(n_far, 40u);
  // Back in a short context the costs are those of the short one.
  EXPECT_NEAR(planner.plan({.max_drafts = 16, .context = 400}).baseline_us, row_us(300), 150);
  EXPECT_NEAR(
      planner.plan({.max_drafts = 16, .context = 39'000}).baseline_us, row_us(38'000), 1500);
}

TEST(PlannerReads, PriceARoundByWhatIsMissingNow) {
  RoundPlanner planner(1, {});
  const std::vector<double> few = {1e6, 1.1e6, 1.2e6, 1.3e6};
  const std::vector<double> many = {1e6, 9e6, 17e6, 25e6};
  Machine machine{.drafted = 0.9};
  std::size_t n_few = 0;
  std::size_t n_many = 0;
  for (std::size_t round = 0; round < 400; ++round) {
    const bool is_few = round % 2 == 0;
    const std::vector<double>& bytes = is_few ? few : many;
    const RoundPlan plan = planner.plan({.max_drafts = 3, .missing_bytes = bytes});
    if (plan.depth() > 0) ++(is_few ? n_few : n_many);
    RoundOutcome outcome = machine.play(plan);
    outcome.missing_bytes = bytes[plan.depth()];
    outcome.stall_us = static_cast<std::int64_t>(outcome.missing_bytes / 1000);
    outcome.rest_us += outcome.stall_us;
    planner.record(plan, outcome);
  }
  EXPECT_GT(n_few, 160u);
  EXPECT_LT(n_many, 30u);
}

TEST(RoundPlanner, FollowsFromInputsAndOutcomes) {
  RoundPlanner a(2, {});
  RoundPlanner b(2, {});
  Machine machine;
  for (std::size_t round = 0; round < 200; ++round) {
    const Offers offers = {std::nullopt, Offer{round % 3, round % 2}};
    const std::vector<double> bytes(5, 1e6 + static_cast<double>(round));
    const PlanInputs inputs{
        .max_drafts = 8, .context = 100 * round, .offers = offers, .missing_bytes = bytes};
    const RoundPlan plan = a.plan(inputs);
    const RoundPlan same = b.plan(inputs);
    ASSERT_EQ(plan.parts, same.parts);
    ASSERT_EQ(plan.predicted_us, same.predicted_us);
    const RoundOutcome outcome = machine.play(plan);
    a.record(plan, outcome);
    b.record(same, outcome);
  }
}

}  // namespace
}  // namespace ft::speculation
