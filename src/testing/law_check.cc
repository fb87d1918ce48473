#include "testing/law_check.h"

#include "base/error.h"

#include <cmath>
#include <limits>

namespace ft::testing {
namespace {

// Below it the statistic of a cell is not close enough to normal (Cochran 1954).
constexpr double kLeastExpected = 5;

}  // namespace

void LawCheck::add(std::span<const std::uint64_t> counts, std::span<const double> law) {
  FT_CHECK(counts.size() == law.size());
  double n = 0;
  for (const std::uint64_t count : counts) n += static_cast<double>(count);
  double statistic = 0;
  std::size_t n_cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++n_cells;
  };
  double rest_count = 0;
  double rest_expected = 0;
  for (std::size_t i = 0; i < law.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    if (law[i] == 0) n_impossible_ += counts[i];
    if (n * law[i] >= kLeastExpected) {
      add_cell(count, n * law[i]);
    } else {
      rest_count += count;
      rest_expected += n * law[i];
    }
  }
  if (rest_expected >= kLeastExpected) add_cell(rest_count, rest_expected);
  if (n_cells < 2) return;
  statistic_ += statistic;
  n_degrees_ += n_cells - 1;
}

double LawCheck::sigmas() const {
  if (n_impossible_ > 0) return std::numeric_limits<double>::infinity();
  FT_CHECK(n_degrees_ > 0);
  const auto k = static_cast<double>(n_degrees_);
  const double spread = 2 / (9 * k);
  return (std::cbrt(statistic_ / k) - (1 - spread)) / std::sqrt(spread);
}

}  // namespace ft::testing
