// What a planner leaves to the next one.
#include "speculation/round_planner.h"

namespace ft::speculation {
namespace {

// Of what first trials may cost, in rounds without drafts: they were made before.
constexpr double kSpent = 1;

}  // namespace

RoundPlanner RoundPlanner::successor() const {
  RoundPlanner out(sources_.size(), options_);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& from = sources_[i];
    Source& to = out.sources_[i];
    to.alone = from.alone.faded();
    for (std::size_t j = 0; j < Offer::kStrengths; ++j) to.offered[j] = from.offered[j].faded();
    to.as_tail = from.as_tail.faded();
    to.draft_cost = from.draft_cost.young();
    to.n_asked = from.n_asked;
    to.n_as_tail = from.n_as_tail;
  }
  out.rest_cost_ = rest_cost_.young();
  out.read_cost_ = read_cost_;
  out.deepest_ = deepest_;
  out.regret_ = kSpent;
  return out;
}

}  // namespace ft::speculation
