#include "speculation/read_costs.h"

namespace ft::speculation {
namespace {

// Rounds miss now more, now less: the sums fade with a window of about 30 rounds, and a width
// stands for itself by as much as it weighs against so many rounds of all.
constexpr double kDecay = 0.97;
constexpr double kSharedWeight = 0.15;

double ratio(double numerator, double denominator, double otherwise) {
  return denominator > 0 ? numerator / denominator : otherwise;
}

}  // namespace

void ReadCosts::observe(std::size_t n_rows,
                        double predicted_bytes,
                        double read_bytes,
                        double stall_us) {
  for (Sums* sums : {&sums_.at(n_rows), &all_}) {
    sums->predicted_bytes = kDecay * sums->predicted_bytes + predicted_bytes;
    sums->read_bytes = kDecay * sums->read_bytes + read_bytes;
    sums->stall_us = kDecay * sums->stall_us + stall_us;
  }
}

double ReadCosts::stall_us(std::size_t n_rows, double predicted_bytes) const {
  const Sums& own = sums_.at(n_rows);
  const auto blended = [&](double Sums::*sum) { return own.*sum + kSharedWeight * (all_.*sum); };
  const double predicted = blended(&Sums::predicted_bytes);
  const double read = blended(&Sums::read_bytes);
  const double correction = ratio(read, predicted, 1);
  return predicted_bytes * correction * ratio(blended(&Sums::stall_us), read, 0);
}

}  // namespace ft::speculation
