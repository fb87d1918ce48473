#include "speculation/hindsight.h"

#include <algorithm>

namespace ft::speculation {
namespace {

// Rounds that are judged in hindsight by what is believed after them: memory was cold.
constexpr std::size_t kFirstRounds = 32;

}  // namespace

// The first rounds are priced when more is known; those with two parts at once, since no fixed
// choice is theirs.
void Hindsight::add(const RoundPlan& plan) {
  if (plan.fixed.empty()) return;
  fixed_us_.resize(plan.fixed.size());
  if (first_choices_.size() < kFirstRounds) {
    fixed_ = plan.fixed;
    if (plan.parts.size() < 2) {
      const std::size_t first_of_source =
          plan.parts.empty() ? 0 : 1 + plan.parts.front().source * max_depth_;
      first_choices_.push_back(plan.parts.empty() ? 0 : first_of_source + plan.depth() - 1);
      return;
    }
  }
  taken_us_ += plan.predicted_us;
  for (std::size_t i = 0; i < fixed_us_.size(); ++i)
    fixed_us_[i] += plan.expected_tokens * plan.fixed[i].cost_us / plan.fixed[i].tokens;
}

std::optional<FixedChoice> Hindsight::best() const {
  if (fixed_.empty()) return std::nullopt;
  double first_tokens = 0;
  double taken_us = taken_us_;
  for (const std::size_t choice : first_choices_) {
    first_tokens += fixed_[choice].tokens;
    taken_us += fixed_[choice].cost_us;
  }
  std::vector<double> us = fixed_us_;
  for (std::size_t i = 0; i < us.size(); ++i)
    us[i] += first_tokens * fixed_[i].cost_us / fixed_[i].tokens;
  const auto best = std::ranges::min_element(us);
  FixedChoice out{.regret = taken_us / *best - 1};
  if (const auto i = static_cast<std::size_t>(best - us.begin()); i > 0) {
    out.source = (i - 1) / max_depth_;
    out.depth = (i - 1) % max_depth_ + 1;
  }
  return out;
}

}  // namespace ft::speculation
