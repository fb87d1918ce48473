// What the planner is asked and answers, and what became of it.
#pragma once

#include "speculation/offer.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ft::speculation {

enum class PlanReason : std::uint8_t {
  kNoSource,  // no source is open
  kNoRoom,    // limits (tokens left, rollback, context) leave no room for a draft
  kFixed,     // --draft-tokens N: the depth is given, the sources are those that do best
  kBaseline,  // the cost of a round without drafts is not measured yet
  kBest,      // most tokens per time
  kHeld,      // another choice is better by less than the hysteresis
  kProbe,     // measures a choice that has not been tried lately, within the regret budget
};
std::string_view to_string(PlanReason reason) noexcept;

/// What is known before a round.
struct PlanInputs {
  std::size_t max_drafts = 0;  // what tokens left, context and caches allow
  std::size_t context = 0;     // positions in the cache
  /// By source, what it would draft now; nullopt: only drafting tells. Empty: none of them tells.
  std::span<const std::optional<Offer>> offers = {};
  /// [n]: bytes of the experts that a forward of n + 1 rows is predicted to read; beyond the last n
  /// it goes on as before. Empty: nothing streams, or nothing is known of it.
  std::span<const double> missing_bytes = {};
};

struct RoundPlan {
  /// A source's share of the window.
  struct Part {
    std::size_t source = 0;                              // index in the list of sources
    std::size_t depth = 0;                               // drafts to ask for, at least 1
    std::optional<std::size_t> strength = std::nullopt;  // of its offer; none: it told nothing
    bool operator==(const Part&) const = default;
  };

  /// In the order of the window: one source, or a head that offers something and a tail that drafts
  /// behind it. None: no drafts.
  std::vector<Part> parts = {};
  double expected_tokens = 1;
  double predicted_us = 0;  // of the whole round; 0: nothing measured yet
  double baseline_us = 0;   // of a round without drafts; 0: nothing measured yet
  struct Price {
    double tokens = 1;
    double cost_us = 0;
  };
  /// Of the fixed choices: no drafts, then each source at 1 … max_depth. Empty if unknown.
  std::vector<Price> fixed = {};
  double instead_us_per_token = 0;  // of a probe: what the best choice is believed to take
  std::optional<double> missing_bytes = std::nullopt;  // as predicted for all its rows
  std::vector<double> all_missing_bytes = {};          // the inputs', for any number of rows
  std::size_t context = 0;
  PlanReason reason = PlanReason::kNoSource;

  std::size_t depth() const noexcept {
    std::size_t sum = 0;
    for (const Part& part : parts) sum += part.depth;
    return sum;
  }
};

/// What a round was and took.
struct RoundOutcome {
  struct Part {
    std::size_t n_asked = 0;
    std::size_t n_drafted = 0;
  };

  std::vector<Part> parts = {};  // those of the plan
  std::size_t n_accepted = 0;
  std::int64_t draft_us = 0;
  std::int64_t rest_us = 0;   // forward, verify and observe
  std::int64_t stall_us = 0;  // of rest_us: computing waited for experts
  double missing_bytes = 0;   // of the experts that the forward had to read
};

}  // namespace ft::speculation
