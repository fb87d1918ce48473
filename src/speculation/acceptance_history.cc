#include "speculation/acceptance_history.h"

#include "base/error.h"

#include <algorithm>

namespace ft::speculation {
namespace {

// Counts fade with a window of about 16 rounds: acceptance differs between prose, code and tool
// calls within one reply.
constexpr double kDecay = 0.94;
// A position not reached yet is expected to do as well as the one before it.
constexpr double kPriorWeight = 1;

// When a run of equal outcomes means that the text has changed, and what is left of the counts
// then.
constexpr double kImpossible = 0.003;
constexpr double kForget = 0.25;

}  // namespace

void AcceptanceHistory::observe(std::size_t asked, std::size_t drafted, std::size_t accepted) {
  FT_CHECK(asked < counts_.size() && drafted <= asked && accepted <= drafted);
  if (asked > 0) notice_change(accepted > 0);
  const auto count = [](double& sum, bool is_hit) { sum = kDecay * sum + (is_hit ? 1 : 0); };
  for (std::size_t i = 1; i <= asked; ++i) {
    Counts& counts = counts_.at(i);
    count(counts.calls, true);
    count(counts.offers, i <= drafted);
    if (i > accepted + 1) continue;
    count(counts.trials, true);
    count(counts.hits, i <= accepted);
  }
}

// A run of first drafts that all fail, or all stand, and that the estimate finds next to
// impossible: the text has changed its kind, and most of what was counted is about another kind.
void AcceptanceHistory::notice_change(bool is_hit) {
  const double expected = estimate(1).front().accepted;
  const double probability = is_hit ? expected : 1 - expected;
  run_probability_ = is_hit == run_is_hits_ ? run_probability_ * probability : probability;
  run_is_hits_ = is_hit;
  if (run_probability_ > kImpossible) return;
  run_probability_ = 1;
  for (Counts& counts : counts_) {
    for (double* sum : {&counts.trials, &counts.hits, &counts.calls, &counts.offers})
      *sum *= kForget;
  }
}

std::vector<AcceptanceHistory::Estimate> AcceptanceHistory::estimate(std::size_t n,
                                                                     double prior) const {
  std::vector<Estimate> estimates;
  estimates.reserve(n);
  Estimate last{prior, 1};
  for (std::size_t i = 1; i <= n; ++i) {
    const Counts& counts = counts_.at(i);
    const double offered =
        (counts.offers + kPriorWeight * last.offered) / (counts.calls + kPriorWeight);
    last = {(counts.hits + kPriorWeight * last.accepted) / (counts.trials + kPriorWeight),
            std::min(last.offered, offered)};
    estimates.push_back(last);
  }
  return estimates;
}

}  // namespace ft::speculation
