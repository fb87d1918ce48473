#include "speculation/acceptance_history.h"

#include "base/error.h"
#include "speculation/number_list.h"

#include <algorithm>
#include <cmath>

namespace ft::speculation {
namespace {

// Counts fade with a window of about 50 rounds: long enough to tell a good depth from its
// neighbours. What changes at once is noticed, see below.
constexpr double kDecay = 0.98;
// A position is expected to do as well as the one before it, as if that had been seen so often.
constexpr double kLaterWeight = 6;

// The text has changed its kind (prose, code, a tool call) when the outcomes fit a change of the
// log-odds by kShift better than the estimates by kEvidence. Of the counts as many rounds as
// kKept are then left.
constexpr double kShift = 1.6;
constexpr double kEvidence = 5.5;
constexpr double kKept = 2;
// Rounds that another text's outcomes count for.
constexpr double kFaded = 4;

double shifted(double probability, double log_odds) {
  const double odds = probability / (1 - probability) * std::exp(log_odds);
  return odds / (1 + odds);
}

// What an outcome says for `other` against `expected`.
double evidence(double other, double expected, bool is_hit) {
  return is_hit ? std::log(other / expected) : std::log((1 - other) / (1 - expected));
}

}  // namespace

void AcceptanceHistory::observe(std::size_t asked, std::size_t drafted, std::size_t accepted) {
  FT_CHECK(asked < counts_.size() && drafted <= asked && accepted <= drafted);
  notice_change(estimate(std::min(asked, accepted + 1)), accepted);
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

// A cumulative-sum test to either side, over the positions that were tried.
void AcceptanceHistory::notice_change(const std::vector<Estimate>& expected, std::size_t accepted) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double probability = std::clamp(expected[i].accepted, 0.01, 0.99);
    const bool is_hit = i < accepted;
    better_ += evidence(shifted(probability, kShift), probability, is_hit);
    worse_ += evidence(shifted(probability, -kShift), probability, is_hit);
  }
  better_ = std::max(better_, 0.0);
  worse_ = std::max(worse_, 0.0);
  if (std::max(better_, worse_) < kEvidence) return;
  keep(kKept);
}

void AcceptanceHistory::keep(double n_rounds) {
  better_ = 0;
  worse_ = 0;
  const double left = n_rounds / std::max(counts_[1].calls, n_rounds);
  for (Counts& counts : counts_) {
    for (double* sum : {&counts.trials, &counts.hits, &counts.calls, &counts.offers}) *sum *= left;
  }
}

AcceptanceHistory AcceptanceHistory::faded() const {
  AcceptanceHistory out = *this;
  out.keep(kFaded);
  return out;
}

std::vector<AcceptanceHistory::Estimate> AcceptanceHistory::estimate(std::size_t n,
                                                                     Prior prior) const {
  std::vector<Estimate> estimates;
  estimates.reserve(n);
  Estimate last{prior.accepted, 1};
  for (std::size_t i = 1; i <= n; ++i) {
    const Counts& counts = counts_.at(i);
    const double weight = i == 1 ? prior.weight : kLaterWeight;
    const double offered = (counts.offers + last.offered) / (counts.calls + 1);
    last = {(counts.hits + weight * last.accepted) / (counts.trials + weight),
            std::min(last.offered, offered)};
    estimates.push_back(last);
  }
  return estimates;
}

template <typename Numbers>
void AcceptanceHistory::each_field(Numbers& numbers) {
  numbers.amount(better_);
  numbers.amount(worse_);
  for (std::size_t i = 1; i < counts_.size(); ++i) {
    Counts& counts = counts_.at(i);
    for (double* sum : {&counts.trials, &counts.hits, &counts.calls, &counts.offers})
      numbers.amount(*sum);
  }
}

std::vector<double> AcceptanceHistory::numbers() const {
  NumberWriter out;
  AcceptanceHistory(*this).each_field(out);
  return out.take();
}

void AcceptanceHistory::set_numbers(std::span<const double> numbers, std::string_view where) {
  NumberReader in(numbers, where);
  each_field(in);
  in.end();
  const auto is_possible = [](const Counts& counts) {
    return counts.hits <= counts.trials && counts.offers <= counts.calls;
  };
  if (!std::ranges::all_of(counts_, is_possible)) fail("{} counts more hits than trials", where);
}

}  // namespace ft::speculation
