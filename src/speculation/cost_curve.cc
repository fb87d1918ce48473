#include "speculation/cost_curve.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ft::speculation {
namespace {

// Weight of one cost measurement, and how far one may raise an estimate: an interrupted round
// (another process, a page fault) must not look like a slower machine.
constexpr double kCostWeight = 0.05;
constexpr double kMaxRise = 1.25;
// So many measurements in a row on one side of the estimate tell of a lasting change: the estimate
// then counts as one of kRelearned.
constexpr std::uint32_t kAside = 7;
constexpr std::uint32_t kRelearned = 4;
// Nothing makes a round much shorter than it needs to be: below this share of the estimate the
// estimate is of cold memory or of a busy machine, and is given up.
constexpr double kStale = 0.65;
// A single measurement may have found weights that were never read, memory that was never touched
// or another process: it is believed up to a multiple of what the other n let expect.
constexpr double kMaxSurprise = 2;
// As long as n is young, and less so if wider ones were measured: costs hardly fall from one n to
// the next, and seldom jump.
constexpr double kMaxBump = 1.1;
// Measurements until an estimate is one of n alone.
constexpr std::uint32_t kYoung = 6;
// Share of a change that is taken over by the n that were not measured just now: a longer context
// or a busy machine slows every width.
constexpr double kShare = 0.5;

// Octaves are counted in units of so many positions: below one of them the context hardly costs.
constexpr std::size_t kContextUnit = 512;

std::size_t octave(std::size_t context) {
  return static_cast<std::size_t>(std::bit_width(context / kContextUnit));
}

}  // namespace

void CostCurve::observe(std::size_t n, double cost_us) {
  cost_us = std::max(cost_us, 1e-3);
  Cost& cost = costs_.at(n);
  ++n_observed_;
  end_ = std::max(end_, n + 1);
  if (cost.count++ == 0) {
    cost.mean_us = cost_us;
    cost.n_averaged = 1;
    return;
  }
  const double ratio = std::min(cost_us / cost.mean_us, kMaxRise);
  const bool is_stale = ratio < kStale;
  cost.n_aside = cost.is_above == (ratio > 1) ? cost.n_aside + 1 : 1;
  cost.is_above = ratio > 1;
  if (cost.n_aside >= kAside) cost.n_averaged = std::min(cost.n_averaged, kRelearned);
  cost.n_averaged = is_stale ? 1 : cost.n_averaged + 1;
  const double weight = is_stale ? 1 : std::max(kCostWeight, 1.0 / cost.n_averaged);
  const double change = std::pow(ratio, weight);
  const double shared = cost.count > kYoung ? std::pow(change, kShare) : 1;
  for (std::size_t i = 0; i < end_; ++i) costs_[i].mean_us *= i == n ? change : shared;
}

// Of a measured n, as long as it is young: no more than a wider one.
double CostCurve::bounded(std::size_t n) const {
  const Cost& cost = costs_.at(n);
  double bound = cost.mean_us;
  if (cost.count > kYoung) return bound;
  for (std::size_t i = n + 1; i < end_; ++i) {
    if (costs_[i].count > 0) bound = std::min(bound, costs_[i].mean_us);
  }
  return bound;
}

double CostCurve::predict(std::size_t n) const {
  if (is_empty()) return 0;
  return costs_.at(n).count == 0 ? from_others(n, 1) : believed(n);
}

// Of a measured n.
double CostCurve::believed(std::size_t n) const {
  const std::uint32_t count = costs_[n].count;
  if (count > kYoung || n_observed_ == 1) return bounded(n);
  const auto* wider = costs_.data() + n + 1;
  const bool is_between = n > 1 && std::any_of(wider,
                                               wider + end_ - std::min(end_, n + 1),
                                               [](const Cost& cost) { return cost.count > 1; });
  if (is_between) return std::min(bounded(n), kMaxBump * from_others(n, 2));
  return count > 1 ? bounded(n) : std::min(bounded(n), kMaxSurprise * from_others(n, 2));
}

// By the n on both sides of it that were measured so often; its own if there are none.
double CostCurve::from_others(std::size_t n, std::uint32_t least_count) const {
  const auto at = [](std::size_t i) { return static_cast<double>(i); };
  const auto counts = [&](std::size_t i) { return i != n && costs_[i].count >= least_count; };
  const auto value = [&](std::size_t i) { return least_count > 1 ? bounded(i) : believed(i); };
  std::size_t first = 0;
  while (first < end_ && !counts(first)) ++first;
  if (first == end_) return costs_[n].mean_us;
  const double first_us = value(first);
  const double prior_slope = prior_slope_ * first_us / std::max(at(first), 1.0);
  if (n < first) return first_us - prior_slope * at(first - n);
  std::size_t below = n - 1;
  while (!counts(below)) --below;
  std::size_t above = n + 1;
  while (above < end_ && !counts(above)) ++above;
  const double below_us = value(below);
  if (above < end_) return below_us + at(n - below) / at(above - below) * (value(above) - below_us);
  const double slope = below == first ? prior_slope : (below_us - first_us) / at(below - first);
  return below_us + std::max(slope, 0.0) * at(n - below);
}

CostCurve CostCurve::young() const {
  CostCurve out = *this;
  for (Cost& cost : out.costs_) {
    cost.count = std::min(cost.count, kYoung + 1);
    cost.n_averaged = std::min<std::uint32_t>(cost.n_averaged, 1);
  }
  return out;
}

void ContextCosts::observe(std::size_t context, std::size_t n, double cost_us) {
  const std::size_t index = octave(context);
  if (index >= curves_.size()) curves_.resize(index + 1, none_);
  if (curves_[index].is_empty()) curves_[index] = curves_[latest_].young();
  curves_[index].observe(n, cost_us);
  latest_ = index;
}

const CostCurve& ContextCosts::at(std::size_t context) const {
  const std::size_t index = octave(context);
  return index < curves_.size() && !curves_[index].is_empty() ? curves_[index] : latest();
}

}  // namespace ft::speculation
