#include "speculation/recorded_world.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr std::size_t kPrompt = 20;
constexpr std::size_t kTokens = 400;

// A text of which the run of right drafts at every position is given, on a machine where a row
// beyond the first costs `row_us` and a draft `draft_us`.
struct Machine {
  std::vector<std::size_t> runs;
  std::int64_t row_us = 0;
  std::int64_t draft_us = 0;

  RoundOutcome run(const RoundPlan& plan, std::size_t position) const {
    RoundOutcome out;
    const std::size_t n = plan.depth();
    if (n > 0) out.parts.push_back({n, n});
    out.n_accepted = std::min(n, runs[position % runs.size()]);
    out.draft_us = draft_us * static_cast<std::int64_t>(n);
    out.rest_us = 1000 + row_us * static_cast<std::int64_t>(n);
    return out;
  }
};

RecordedTrace record(const Machine& machine, std::optional<std::size_t> depth, bool has_source) {
  RecordedTrace trace;
  if (has_source) trace.sources = {"mtp"};
  trace.options.fixed_depth = depth;
  RoundPlanner planner(trace.sources.size(), trace.options);
  for (std::size_t position = kPrompt; position < kPrompt + kTokens;) {
    RecordedRound round;
    round.position = position;
    round.context = position;
    round.max_drafts = kPrompt + kTokens - position - 1;
    round.plan = planner.plan(round.inputs());
    round.outcome = machine.run(round.plan, position);
    planner.record(round.plan, round.outcome);
    position += round.outcome.n_accepted + 1;
    trace.rounds.push_back(round);
  }
  return trace;
}

std::vector<RecordedTrace> record_all(const Machine& machine) {
  std::vector<RecordedTrace> out = {record(machine, std::nullopt, false)};
  for (const std::size_t depth : {1U, 2U, 3U, 5U}) out.push_back(record(machine, depth, true));
  return out;
}

double time_of(const std::vector<PlayedChoice>& played, const std::string& name) {
  const auto found = std::ranges::find(played, name, &PlayedChoice::name);
  EXPECT_NE(found, played.end()) << name;
  return found == played.end() ? 0 : found->us_per_1000_tokens;
}

TEST(Replay, ChoosesTheSameAgain) {
  const Machine machine{.runs = {3, 1, 0, 2, 5}, .row_us = 100, .draft_us = 50};
  RecordedTrace trace = record(machine, std::nullopt, true);
  EXPECT_FALSE(find_difference(trace));
  EXPECT_FALSE(find_difference(record(machine, 3, true)));
  // Another outcome is another text: the plans after it say so.
  trace.rounds[0].outcome.rest_us *= 3;
  const std::optional<PlanDifference> difference = find_difference(trace);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->round, 1U);
  EXPECT_NE(difference->recorded, difference->recomputed);
}

TEST(Replay, SeesAnotherPlan) {
  const Machine machine{.runs = {3, 1, 0, 2, 5}, .row_us = 100, .draft_us = 50};
  RecordedTrace trace = record(machine, 3, true);
  trace.rounds[7].plan.parts.front().depth = 2;
  const std::optional<PlanDifference> difference = find_difference(trace);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->round, 7U);
  EXPECT_EQ(difference->recorded.substr(0, 5), "mtp 2");
  EXPECT_EQ(difference->recomputed.substr(0, 5), "mtp 3");
}

TEST(RecordedWorld, PlaysFixedChoicesAsTheMachineWould) {
  const Machine machine{.runs = {3}, .row_us = 100, .draft_us = 50};
  const std::vector<PlayedChoice> played = RecordedWorld(record_all(machine)).play();
  EXPECT_EQ(played.front().name, "auto");
  EXPECT_EQ(played.size(), 7U);  // auto, none, depths 1 ... 5
  EXPECT_NEAR(time_of(played, "none"), 1000 * 1000, 1);
  EXPECT_NEAR(time_of(played, "mtp 1"), 1150 / 2.0 * 1000, 1);
  EXPECT_NEAR(time_of(played, "mtp 3"), 1450 / 4.0 * 1000, 1);
  // Not recorded: between its neighbours. Nothing comes after the third draft.
  EXPECT_NEAR(time_of(played, "mtp 4"), 1600 / 4.0 * 1000, 2000);
}

TEST(RecordedWorld, RegretOfThePlannerIsSmall) {
  const std::array machines = {Machine{.runs = {3}, .row_us = 100, .draft_us = 50},
                               Machine{.runs = {0}, .row_us = 100, .draft_us = 50},
                               Machine{.runs = {0, 1}, .row_us = 900, .draft_us = 50}};
  for (const Machine& machine : machines) {
    const std::vector<PlayedChoice> played = RecordedWorld(record_all(machine)).play();
    EXPECT_LT(regret(played), 0.025);
  }
}

TEST(RecordedWorld, RefusesTracesOfDifferentRequests) {
  const Machine machine{.runs = {3}, .row_us = 100, .draft_us = 50};
  std::vector<RecordedTrace> traces = record_all(machine);
  for (RecordedRound& round : traces[1].rounds) ++round.position;
  EXPECT_THROW(RecordedWorld{traces}, InvalidInput);
  traces[1].rounds.clear();
  EXPECT_THROW(RecordedWorld{traces}, InvalidInput);
  EXPECT_THROW(RecordedWorld({}), InvalidInput);
}

}  // namespace
}  // namespace ft::speculation
