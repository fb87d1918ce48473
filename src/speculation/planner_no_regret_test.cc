// What the planner's choices cost against the best depth kept for ever, on simulated machines and
// texts. Counted are the times of a quiet machine and the tokens that a choice may expect: the luck
// of single drafts and interruptions move what the planner learns, not what it is charged.
#include "base/random.h"
#include "speculation/round_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr std::uint64_t kFirstSeed = 70'001;  // none that a constant was chosen with
constexpr std::size_t kSeeds = 40;
constexpr std::array<std::size_t, 5> kFixedDepths = {0, 1, 2, 3, 5};

struct World {
  std::string name;
  double compute_us = 0;        // of one row
  double row_share = 0;         // of a further row, of compute_us
  double read_us = 0;           // of one row's missing experts
  double missing_share = 0;     // of a further row's missing experts, of the first row's
  double draft_us = 0;          // a step
  double first = 0;             // acceptance of the first draft
  double later = 0;             // of the others, those before them accepted
  double forecast_noise = 0.3;  // of missing bytes, and of what is missing
  double noise = 0.1;
  double preempted = 0.02;  // share of rounds that take two to six times as long
  double cold = 3;          // factor of the first rounds of each kind
};

class Reply {
 public:
  Reply(const World& world, std::uint64_t seed) : world_(world), seed_(seed) {}

  static double compute_us(const World& world, std::size_t n_drafts) {
    return world.compute_us * (1 + world.row_share * static_cast<double>(n_drafts));
  }
  static double read_us(const World& world, std::size_t n_drafts) {
    return world.read_us * (1 + world.missing_share * static_cast<double>(n_drafts));
  }
  static double quiet_us(const World& world, std::size_t n_drafts) {
    return compute_us(world, n_drafts) + read_us(world, n_drafts) +
           world.draft_us * static_cast<double>(n_drafts);
  }
  static double expected_tokens(const World& world, std::size_t n_drafts) {
    double tokens = 1;
    double reached = 1;
    for (std::size_t i = 0; i < n_drafts; ++i) {
      reached *= i == 0 ? world.first : world.later;
      tokens += reached;
    }
    return tokens;
  }
  static double fixed_us_per_token(const World& world, std::size_t depth) {
    return quiet_us(world, depth) / expected_tokens(world, depth);
  }

  /// Microseconds per token of the planner's choices.
  double us_per_token(RoundPlanner& planner, double n_tokens = 1000) {
    double us = 0;
    double tokens = 0;
    while (tokens < n_tokens) {
      const RoundPlan plan = planner.plan(inputs());
      const std::size_t depth = plan.depth();
      us += quiet_us(world_, depth);
      tokens += expected_tokens(world_, depth);
      ++by_depth[depth];
      planner.record(plan, play(depth));
    }
    return us / tokens;
  }

  std::array<std::size_t, kMaxDraftTokens + 1> by_depth{};

 private:
  double uniform() { return noise_uniform(seed_, NoisePurpose::kAccept, n_draws_++, 0); }
  double about(double value, double noise) { return value * (1 + 2 * noise * (uniform() - 0.5)); }

  PlanInputs inputs() {
    missing_.clear();
    if (world_.read_us > 0) {
      for (std::size_t n = 0; n <= 16; ++n)
        missing_.push_back(about(1000 * read_us(world_, n), world_.forecast_noise));
    }
    return {.max_drafts = kMaxDraftTokens, .context = 1000, .missing_bytes = missing_};
  }

  RoundOutcome play(std::size_t depth) {
    RoundOutcome outcome;
    if (depth > 0) outcome.parts = {{depth, depth}};
    while (outcome.n_accepted < depth &&
           uniform() < (outcome.n_accepted == 0 ? world_.first : world_.later)) {
      ++outcome.n_accepted;
    }
    const double factor = (uniform() < world_.preempted ? 2 + 4 * uniform() : 1) *
                          (n_of_.at(std::min<std::size_t>(depth, 1))++ < 2 ? world_.cold : 1);
    const double stall = about(read_us(world_, depth), world_.forecast_noise);
    outcome.missing_bytes = 1000 * stall;
    outcome.stall_us = static_cast<std::int64_t>(stall * factor);
    outcome.rest_us =
        outcome.stall_us +
        static_cast<std::int64_t>(factor * about(compute_us(world_, depth), world_.noise));
    outcome.draft_us = static_cast<std::int64_t>(factor * about(world_.draft_us, world_.noise) *
                                                 static_cast<double>(depth));
    return outcome;
  }

  World world_;
  std::uint64_t seed_;
  std::uint64_t n_draws_ = 0;
  std::vector<double> missing_;
  std::array<std::size_t, 2> n_of_{};
};

// How a failure names its parameter.
void PrintTo(const World& world, std::ostream* out) {
  *out << world.name;
}

World resident(double first, double later) {
  return {.name = fmt::format("resident, acceptance {} {}", first, later),
          .compute_us = 480,
          .row_share = 0.07,
          .draft_us = 75,
          .first = first,
          .later = later};
}

// Rows that cost what those of a small model do: much.
World small(double acceptance) {
  return {.name = fmt::format("small, acceptance {}", acceptance),
          .compute_us = 600,
          .row_share = 0.4,
          .draft_us = 105,
          .first = acceptance,
          .later = acceptance};
}

World streamed(double missing_share, double acceptance) {
  return {.name = fmt::format("streamed, row {}, acceptance {}", missing_share, acceptance),
          .compute_us = 180'000,
          .row_share = 0.07,
          .read_us = 420'000,
          .missing_share = missing_share,
          .draft_us = 12'000,
          .first = acceptance,
          .later = acceptance};
}

struct Regret {
  double mean = 0;   // time per token over that of the best fixed depth
  double worst = 0;  // of the seeds
  double gain = 0;   // over not drafting, mean
};

double best_fixed(const World& world) {
  double best = Reply::fixed_us_per_token(world, 0);
  for (const std::size_t depth : kFixedDepths)
    best = std::min(best, Reply::fixed_us_per_token(world, depth));
  return best;
}

Regret regret(const World& world) {
  Regret out;
  double sum = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    RoundPlanner planner(1, {});
    const double us = Reply(world, seed).us_per_token(planner);
    out.worst = std::max(out.worst, us / best_fixed(world));
    sum += us / kSeeds;
  }
  out.mean = sum / best_fixed(world);
  out.gain = Reply::fixed_us_per_token(world, 0) / sum;
  return out;
}

class PlannerRegret : public ::testing::TestWithParam<World> {};

TEST_P(PlannerRegret, IsSmallAgainstTheBestFixedDepth) {
  const Regret found = regret(GetParam());
  EXPECT_LT(found.mean, 1.02);
  EXPECT_LT(found.worst, 1.06);
}

TEST_P(PlannerRegret, IsReportedAsItWas) {
  const World& world = GetParam();
  const auto us_per_token = [&](const std::optional<FixedChoice>& best) {
    return Reply::fixed_us_per_token(world, best->source ? best->depth : 0);
  };
  double reported = 0;
  double was = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 10; ++seed) {
    RoundPlanner planner(1, {});
    EXPECT_FALSE(planner.best_in_hindsight());
    const double us = Reply(world, seed).us_per_token(planner);
    const std::optional<FixedChoice> best = planner.best_in_hindsight();
    ASSERT_TRUE(best);
    reported += best->regret / 10;
    was += (us / us_per_token(best) - 1) / 10;
    EXPECT_LT(us_per_token(best), 1.05 * best_fixed(world)) << "not nearly the best";
  }
  EXPECT_NEAR(reported, was, 0.03);
}

INSTANTIATE_TEST_SUITE_P(Worlds,
                         PlannerRegret,
                         ::testing::Values(resident(0.85, 0.8),
                                           resident(0.02, 0.02),
                                           resident(0.2, 0.2),
                                           resident(0.98, 0.98),
                                           resident(0.5, 0.5),
                                           small(0.98),
                                           small(0.95),
                                           small(0.5),
                                           small(0.3),
                                           streamed(0.75, 0.6),
                                           streamed(0.75, 0.4),
                                           streamed(0.75, 0.02),
                                           streamed(0.35, 0.6),
                                           streamed(0.35, 0.98),
                                           streamed(0.75, 0.98)));

TEST(PlannerNoRegret, GainsWhatThereIsToGain) {
  EXPECT_GT(regret(resident(0.98, 0.98)).gain, 1.5);
  EXPECT_GT(regret(streamed(0.35, 0.98)).gain, 2);
}

TEST(PlannerNoRegret, GivesUpSoonWhereTheDriveIsTheBound) {
  const World world = streamed(0.75, 0.02);
  RoundPlanner planner(1, {});
  Reply reply(world, 1);
  reply.us_per_token(planner, 60);
  EXPECT_GT(reply.by_depth[0], 48u);
}

}  // namespace
}  // namespace ft::speculation
