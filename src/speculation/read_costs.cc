#include "speculation/read_costs.h"

#include "speculation/number_list.h"

#include <algorithm>

namespace ft::speculation {
namespace {

// Rounds miss now more, now less: sums fade with a window of about 50 rounds, means of about 20.
constexpr double kDecay = 0.98;
constexpr double kMeanWeight = 0.05;
// An interrupted round must not look like a slower drive, nor the first ones, which find nothing
// where it will be: above the first bound a wait is cut, below the second one of so many rounds
// those before it are forgotten.
constexpr double kMaxRise = 1.5;
constexpr double kStale = 0.6;
constexpr std::size_t kYoung = 12;
// Before rounds have told, half of a deviation is believed.
constexpr double kPriorBelief = 0.5;
constexpr double kPriorSquares = 0.05;

double ratio(double numerator, double denominator, double otherwise) {
  return denominator > 0 ? numerator / denominator : otherwise;
}

}  // namespace

void ReadCosts::observe(std::span<const double> predicted_bytes,
                        std::size_t n_rows,
                        double read_bytes,
                        double stall_us) {
  if (n_rows > predicted_bytes.size()) return;
  const double predicted = predicted_bytes[n_rows - 1];
  if (n_rows <= mean_bytes_.size() && mean_bytes_[n_rows - 1] > 0) {
    const double mean = mean_bytes_[n_rows - 1];
    const double expected = mean * correction(n_rows);
    const double deviation = predicted / mean - 1;
    products_ = kDecay * products_ + deviation * (ratio(read_bytes, expected, 1) - 1);
    squares_ = kDecay * squares_ + deviation * deviation;
  }
  ++n_predictions_;
  if (all_.stall_us > 0 && read_bytes > 0) {
    const double expected_us = read_bytes * us_per_byte(n_rows);
    if (n_predictions_ <= kYoung && stall_us < kStale * expected_us) {
      for (Sums& sums : sums_) sums.stall_us *= stall_us / expected_us;
      all_.stall_us *= stall_us / expected_us;
    }
    stall_us = std::min(stall_us, kMaxRise * expected_us);
  }
  mean_bytes_.resize(std::max(mean_bytes_.size(), predicted_bytes.size()));
  const double weight = std::max(kMeanWeight, 1 / static_cast<double>(n_predictions_));
  for (std::size_t n = 0; n < predicted_bytes.size(); ++n) {
    double& mean = mean_bytes_[n];
    mean = mean > 0 ? mean + weight * (predicted_bytes[n] - mean) : predicted_bytes[n];
  }
  for (Sums* sums : {&sums_.at(n_rows), &all_}) {
    sums->predicted_bytes = kDecay * sums->predicted_bytes + predicted;
    sums->read_bytes = kDecay * sums->read_bytes + read_bytes;
    sums->stall_us = kDecay * sums->stall_us + stall_us;
  }
}

std::vector<double> ReadCosts::believed(std::span<const double> predicted_bytes) const {
  const double belief =
      std::clamp((products_ + kPriorBelief * kPriorSquares) / (squares_ + kPriorSquares), 0.0, 1.0);
  std::vector<double> out(predicted_bytes.begin(), predicted_bytes.end());
  for (std::size_t n = 0; n < std::min(out.size(), mean_bytes_.size()); ++n) {
    if (mean_bytes_[n] > 0) out[n] = mean_bytes_[n] + belief * (out[n] - mean_bytes_[n]);
  }
  return out;
}

double ReadCosts::correction(std::size_t n_rows) const {
  return ratio(blended(n_rows, &Sums::read_bytes), blended(n_rows, &Sums::predicted_bytes), 1);
}

double ReadCosts::stall_us(std::size_t n_rows, double believed_bytes) const {
  return believed_bytes * correction(n_rows) * us_per_byte(n_rows);
}

double ReadCosts::us_per_byte(std::size_t n_rows) const {
  return ratio(blended(n_rows, &Sums::stall_us), blended(n_rows, &Sums::read_bytes), 0);
}

template <typename Numbers>
void ReadCosts::each_field(Numbers& numbers) {
  // Means that are 0 are as good as none.
  mean_bytes_.resize(kMaxDraftTokens + 1);
  const auto each_sum = [&numbers](Sums& sums) {
    for (double* sum : {&sums.predicted_bytes, &sums.read_bytes, &sums.stall_us})
      numbers.amount(*sum);
  };
  numbers.count(n_predictions_);
  numbers.real(products_);
  numbers.real(squares_);
  each_sum(all_);
  for (std::size_t n_rows = 1; n_rows < sums_.size(); ++n_rows) {
    numbers.amount(mean_bytes_.at(n_rows - 1));
    each_sum(sums_.at(n_rows));
  }
}

std::vector<double> ReadCosts::numbers() const {
  NumberWriter out;
  ReadCosts(*this).each_field(out);
  return out.take();
}

void ReadCosts::set_numbers(std::span<const double> numbers, std::string_view where) {
  NumberReader in(numbers, where);
  each_field(in);
  in.end();
}

}  // namespace ft::speculation
