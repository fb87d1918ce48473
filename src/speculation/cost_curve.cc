#include "speculation/cost_curve.h"

#include "base/error.h"
#include "speculation/number_list.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ft::speculation {
namespace {

// Standard deviations as shares of the cost: of a measurement, of the very first one, and of what
// the machine's speed and the slope alone change from one measurement to the next.
constexpr double kNoise = 0.08;
constexpr double kFirstNoise = 0.5;
constexpr double kDrift = 0.02;
constexpr double kSlopeDrift = 0.005;
// A measurement so many standard deviations below the line tells that the line is of cold memory
// or of a busy machine, and the line starts anew.
constexpr double kMaxSurprise = 3;
// So does a second one below this share of it: the first of all is the coldest.
constexpr double kColdShare = 0.75;
// Above the line, its noise is taken to be as large as its distance.
constexpr double kUsual = 1;
// What the line says weighs as much as so many measurements of one n, of which the latest count.
constexpr double kLineWeight = 4;
constexpr double kExcessWeight = 0.1;
constexpr double kMaxExcess = 0.25;
// What an n that was never measured may differ from the line, and how measurements fade.
constexpr double kDoubt = 0.08;
constexpr double kFade = 0.99;

// What is too short for the clock is taken to last so long: costs are divided by.
constexpr double kLeastUs = 1e-3;

// A forward longer than so many usual ones was interrupted.
constexpr double kMostOfMean = 2;
// A row adds at least so much of the narrowest forward, whatever its measurements say.
constexpr double kLeastSlope = 0.02;

// Octaves are counted in units of so many positions: below one of them the context hardly costs.
constexpr std::size_t kContextUnit = 512;

std::size_t octave(std::size_t context) {
  return static_cast<std::size_t>(std::bit_width(context / kContextUnit));
}

}  // namespace

void CostCurve::start(double n, double cost_us) {
  const double per_thing = cost_us / std::max(n, 1.0);
  slope_ = prior_.slope * per_thing;
  at_0_ = cost_us - slope_ * n;
  const double deviation = prior_.deviation * per_thing;
  var_slope_ = deviation * deviation;
  covariance_ = -n * var_slope_;
  const double noise = kFirstNoise * cost_us;
  var_at_0_ = noise * noise + n * n * var_slope_;
}

double CostCurve::line(double n) const {
  return at_0_ + slope_ * n;
}

double CostCurve::variance(double n) const {
  return var_at_0_ + n * (2 * covariance_ + n * var_slope_);
}

// The machine grows slower or faster in all it does, and a little in what one more thing costs.
void CostCurve::drift() {
  const double drift = kDrift * kDrift;
  const double slope_drift = kSlopeDrift * line(1);
  var_at_0_ += drift * at_0_ * at_0_;
  covariance_ += drift * at_0_ * slope_;
  var_slope_ += drift * slope_ * slope_ + slope_drift * slope_drift;
}

void CostCurve::correct(double n, double cost_us) {
  const double surprise = cost_us - line(n);
  double noise = kNoise * line(n);
  const double deviation = std::sqrt(variance(n) + noise * noise);
  const bool was_cold = n_observed_ == 2 && cost_us < kColdShare * line(n);
  if (was_cold || surprise < -kMaxSurprise * deviation) {
    excess_.fill(0);
    return start(n, cost_us);
  }
  if (surprise > kUsual * deviation) {
    noise *= surprise / (kUsual * deviation);
  }
  const double total = variance(n) + noise * noise;
  const double gain_at_0 = (var_at_0_ + n * covariance_) / total;
  const double gain_slope = (covariance_ + n * var_slope_) / total;
  at_0_ += gain_at_0 * surprise;
  slope_ += gain_slope * surprise;
  var_at_0_ -= gain_at_0 * gain_at_0 * total;
  covariance_ -= gain_at_0 * gain_slope * total;
  var_slope_ -= gain_slope * gain_slope * total;
  if (slope_ < 0) {
    at_0_ += slope_ * n;
    slope_ = 0;
  }
}

void CostCurve::observe(std::size_t n, double cost_us) {
  cost_us = std::max(cost_us, kLeastUs);
  const auto at = static_cast<double>(n);
  if (n_observed_++ == 0) {
    start(at, cost_us);
  } else {
    drift();
    correct(at, cost_us);
  }
  const double excess = std::clamp(cost_us / line(at) - 1, -kMaxExcess, kMaxExcess);
  const double weight = std::max(kExcessWeight, 1.0 / ++count_.at(n));
  for (double& known : known_) known *= kFade;
  known_[n] += 1;
  excess_[n] += weight * (excess - excess_[n]);
}

double CostCurve::predict(std::size_t n) const {
  if (is_empty()) return 0;
  const double line_us = std::max(line(static_cast<double>(n)), kLeastUs);
  const double count = count_.at(n);
  return line_us * (1 + excess_[n] * count / (count + kLineWeight));
}

double CostCurve::doubt(std::size_t n) const {
  return kDoubt / std::sqrt(1 + known_.at(n));
}

CostCurve CostCurve::young() const {
  CostCurve out = *this;
  const double factor = 4;
  out.var_at_0_ *= factor;
  out.covariance_ *= factor;
  out.var_slope_ *= factor;
  return out;
}

template <typename Numbers>
void CostCurve::each_field(Numbers& numbers) {
  numbers.count(n_observed_);
  for (double* x : {&at_0_, &slope_, &var_at_0_, &covariance_, &var_slope_}) numbers.real(*x);
  for (std::size_t n = 0; n < count_.size(); ++n) {
    numbers.count(count_.at(n));
    numbers.amount(known_.at(n));
    numbers.real(excess_.at(n));
  }
}

std::vector<double> CostCurve::numbers() const {
  NumberWriter out;
  CostCurve(*this).each_field(out);
  return out.take();
}

void CostCurve::set_numbers(std::span<const double> numbers, std::string_view where) {
  NumberReader in(numbers, where);
  each_field(in);
  in.end();
  const auto is_share = [](double excess) { return std::abs(excess) <= 1; };
  if (!std::ranges::all_of(excess_, is_share))
    fail("{} is further off its line than costs are", where);
  if (n_observed_ == 0 && !numbers.empty()) fail("{} tells costs that nobody measured", where);
}

void ForwardCosts::observe(std::size_t n_rows, double forward_us) {
  if (n_rows >= widths_.size()) return;
  forward_us = std::max(forward_us, kLeastUs);
  Width& width = widths_[n_rows];
  const double weight = std::max(kExcessWeight, 1.0 / static_cast<double>(++width.n_observed));
  const double most_us = width.n_observed > 1 ? kMostOfMean * width.us : forward_us;
  width.us += weight * (std::min(forward_us, most_us) - width.us);
}

double ForwardCosts::fixed_part(std::size_t n_rows) const {
  const auto is_known = [](const Width& width) { return width.n_observed > 1; };
  const auto narrowest = std::find_if(widths_.begin(), widths_.end(), is_known);
  if (narrowest == widths_.end()) return 0;
  const auto least = static_cast<std::size_t>(narrowest - widths_.begin());
  std::size_t other = n_rows;
  if (n_rows <= least || n_rows >= widths_.size() || !is_known(widths_[n_rows])) {
    const auto widest = std::find_if(widths_.rbegin(), widths_.rend(), is_known);
    other = static_cast<std::size_t>(widths_.rend() - widest) - 1;
  }
  const auto n_least = static_cast<double>(least);
  double row_us = kForwardPrior.slope * narrowest->us / (1 + kForwardPrior.slope * (n_least - 1));
  if (other > least) {
    const double more_us = widths_[other].us - narrowest->us;
    row_us = std::max(more_us / static_cast<double>(other - least), kLeastSlope * narrowest->us);
  }
  const double fixed_us = std::max(narrowest->us - row_us * n_least, 0.0);
  return fixed_us / (fixed_us + row_us * static_cast<double>(n_rows));
}

void ContextCosts::observe(std::size_t context, std::size_t n, double cost_us) {
  const std::size_t index = octave(context);
  if (index >= curves_.size()) curves_.resize(index + 1, none_);
  if (curves_[index].is_empty()) curves_[index] = curves_[latest_].young();
  curves_[index].observe(n, cost_us);
  latest_ = index;
}

ContextCosts ContextCosts::young() const {
  ContextCosts out = *this;
  for (CostCurve& curve : out.curves_) curve = curve.young();
  return out;
}

ContextCosts::Numbers ContextCosts::numbers() const {
  Numbers out{.curves = {}, .latest = latest_};
  for (const CostCurve& curve : curves_) out.curves.push_back(curve.numbers());
  return out;
}

void ContextCosts::set_numbers(const Numbers& numbers, std::string_view where) {
  constexpr std::size_t kMostOctaves = 64;
  if (numbers.curves.size() > kMostOctaves)
    fail("{} has {} curves, expected at most {}", where, numbers.curves.size(), kMostOctaves);
  curves_.clear();
  for (const std::vector<double>& curve : numbers.curves) {
    curves_.push_back(none_);
    curves_.back().set_numbers(curve, where);
  }
  latest_ = numbers.latest;
  const bool has_latest = latest_ < curves_.size() && !curves_[latest_].is_empty();
  if (!has_latest && !(curves_.empty() && latest_ == 0))
    fail("{} has no curve {}, which is the latest", where, latest_);
}

const CostCurve& ContextCosts::at(std::size_t context) const {
  const std::size_t index = octave(context);
  return index < curves_.size() && !curves_[index].is_empty() ? curves_[index] : latest();
}

}  // namespace ft::speculation
