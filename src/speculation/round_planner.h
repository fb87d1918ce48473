// Which source drafts how many tokens: the (source, depth) with the most committed tokens per
// predicted time, depth 0 included. Nothing else may choose a depth. Pure: a planner is a value;
// what it says follows from the outcomes it was given. Wrong predictions cost time, never text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ft::speculation {

/// The longest draft of a round.
inline constexpr std::size_t kMaxDraftTokens = 64;

/// Microseconds of an operation on n things, learned online per n: interpolated between measured n,
/// extrapolated beyond. One slow measurement moves an estimate by a bounded factor.
class CostCurve {
 public:
  /// prior_slope: cost of one more thing as a share of the cost per thing, as long as only one n is
  /// measured (1: proportional to n).
  explicit CostCurve(double prior_slope) : prior_slope_(prior_slope) {}

  void observe(std::size_t n, double cost_us);
  bool is_empty() const noexcept { return n_observed_ == 0; }
  std::size_t n_observed() const noexcept { return n_observed_; }
  std::size_t n_observed(std::size_t n) const { return costs_.at(n).count; }
  /// 0 if empty.
  double predict(std::size_t n) const;

 private:
  struct Cost {
    double mean_us = 0;
    std::uint32_t count = 0;
    std::uint32_t n_averaged = 0;  // of them, in the mean
  };

  double bounded(std::size_t n) const;
  double believed(std::size_t n) const;
  double from_others(std::size_t n, std::uint32_t least_count) const;

  double prior_slope_;
  std::array<Cost, kMaxDraftTokens + 2> costs_{};
  std::size_t end_ = 0;  // all measured n are below
  std::size_t n_observed_ = 0;
};

/// How one source has done, by position in the draft (1 is the first): decayed counts with a prior.
class AcceptanceHistory {
 public:
  /// asked >= drafted >= accepted.
  void observe(std::size_t asked, std::size_t drafted, std::size_t accepted);
  struct Estimate {
    /// P(draft i is offered and accepted | i asked for, drafts before it accepted).
    double accepted = 0;
    double offered = 0;  // P(at least i drafts are offered | i asked for)
  };
  /// For positions 1 … n.
  std::vector<Estimate> estimate(std::size_t n) const;

 private:
  struct Counts {
    double trials = 0;
    double hits = 0;
    double calls = 0;
    double offers = 0;
  };
  void notice_change(bool is_hit);

  std::array<Counts, kMaxDraftTokens + 1> counts_{};
  double run_probability_ = 1;  // of the latest run of equal outcomes of the first draft
  bool run_is_hits_ = false;
};

enum class PlanReason : std::uint8_t {
  kNoSource,  // no source is open
  kNoRoom,    // limits (tokens left, rollback, context) leave no room for a draft
  kFixed,     // --draft-tokens N: the depth is given, the source is the one that does best
  kBaseline,  // the cost of a round without drafts is not measured yet
  kBest,      // most tokens per time
  kHeld,      // another choice is better by less than the hysteresis
  kProbe,     // measures a choice that has not been tried lately, within the regret budget
};
std::string_view to_string(PlanReason reason) noexcept;

struct RoundPlan {
  static constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);

  std::size_t source = kNoSource;  // index in the list of sources
  std::size_t depth = 0;           // drafts to ask for
  double expected_tokens = 1;
  double predicted_us = 0;          // of the whole round; 0: nothing measured yet
  double instead_us_per_token = 0;  // of a probe: what the best choice is believed to take
  PlanReason reason = PlanReason::kNoSource;
};

/// What a round was and took.
struct RoundOutcome {
  std::size_t n_asked = 0;
  std::size_t n_drafted = 0;
  std::size_t n_accepted = 0;
  std::int64_t draft_us = 0;
  std::int64_t rest_us = 0;  // forward, verify and observe
};

struct PlannerOptions {
  std::optional<std::size_t>
      fixed_depth;  // --draft-tokens N, at most kMaxDraftTokens; the source is still chosen
  std::size_t max_depth = 16;  // of the automatic choice
};

class RoundPlanner {
 public:
  /// Sources are numbered 0 … n_sources - 1; on ties the lower number wins. Throws InvalidInput if
  /// a depth is above kMaxDraftTokens.
  RoundPlanner(std::size_t n_sources, PlannerOptions options);

  /// max_drafts: what tokens left, context and caches allow.
  RoundPlan plan(std::size_t max_drafts) const;
  /// After every round, with the plan it followed.
  void record(const RoundPlan& plan, const RoundOutcome& outcome);

  /// Microseconds a round without drafts takes, 0 if unknown: the baseline of the trace's regret.
  double baseline_us() const { return rest_cost_.predict(1); }

 private:
  struct Source {
    AcceptanceHistory acceptance;
    CostCurve draft_cost{1.0};
    std::size_t n_asked = 0;
    std::uint64_t last_round = 0;                                 // it was asked in
    std::array<std::uint64_t, kMaxDraftTokens + 1> last_asked{};  // by depth: the latest round
  };
  struct Choice {
    std::size_t source = RoundPlan::kNoSource;
    std::size_t depth = 0;
    double tokens = 1;
    double cost_us = 0;
    double rate() const { return tokens / cost_us; }
  };

  RoundPlan as_plan(const Choice& choice, PlanReason reason) const;
  RoundPlan as_probe(const Choice& choice, const Choice& instead_of) const;
  // In units of a one-row round as long as nothing is measured, else in microseconds.
  double rest_us(std::size_t n_drafts) const;
  double draft_us(const Source& source, std::size_t n_drafts) const;
  Choice draft_nothing() const;
  std::vector<Choice> price(std::size_t source, std::size_t max_depth) const;
  Choice best_depth(std::size_t source, std::size_t min_depth, std::size_t max_depth) const;
  Choice best_choice(std::size_t min_depth, std::size_t max_depth) const;
  Choice held_choice(std::size_t max_depth) const;
  std::optional<Choice> neighbour(const Choice& chosen,
                                  std::size_t min_depth,
                                  std::size_t max_depth) const;
  std::optional<Choice> probe(const Choice& chosen,
                              std::size_t min_depth,
                              std::size_t max_depth) const;

  PlannerOptions options_;
  std::vector<Source> sources_;
  CostCurve rest_cost_;  // by rows of the forward
  std::size_t held_source_ = RoundPlan::kNoSource;
  std::size_t held_depth_ = 0;
  std::size_t retry_source_ = RoundPlan::kNoSource;  // a probe that went well is repeated at once
  std::size_t retry_depth_ = 0;
  std::uint64_t n_rounds_ = 0;
  std::uint64_t last_probe_ = 0;
  std::uint64_t last_neighbour_ = 0;  // probe of the held source at another depth
  std::uint64_t last_baseline_ = 0;
  double elapsed_us_ = 0;
  double regret_us_ = 0;  // spent on probes
};

}  // namespace ft::speculation
