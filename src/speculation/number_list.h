// What a planner learned as plain numbers, for traces: the fields of a value in a fixed order, the
// zeros at the end left out. A value names its fields once, to a writer or to a reader; the reader
// takes its numbers for hostile.
#pragma once

#include "base/error.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::speculation {

class NumberWriter {
 public:
  void count(std::size_t n) { numbers_.push_back(static_cast<double>(n)); }
  void amount(double x) { numbers_.push_back(x); }
  void real(double x) { numbers_.push_back(x); }

  /// Once, at the end.
  std::vector<double> take() {
    while (!numbers_.empty() && numbers_.back() == 0) numbers_.pop_back();
    return std::move(numbers_);
  }

 private:
  std::vector<double> numbers_;
};

/// Throws InvalidInput naming `where`, which must outlive it, for a number that no field has.
class NumberReader {
 public:
  NumberReader(std::span<const double> numbers, std::string_view where)
      : numbers_(numbers), where_(where) {}

  template <typename Count>
  void count(Count& n) {
    const double x = next(0, kMostCounted);
    if (x != std::floor(x)) fail("{} has {}, expected a whole number", where_, x);
    n = static_cast<Count>(x);
  }
  void amount(double& x) { x = next(0, kMost); }
  void real(double& x) { x = next(-kMost, kMost); }
  /// No field is left, and no number may be.
  void end() const {
    if (!numbers_.empty()) fail("{} has {} numbers too many", where_, numbers_.size());
  }

 private:
  // More than a trace has rounds, and than a time squared can be; sums of a few stay finite.
  static constexpr double kMostCounted = 1e9;
  static constexpr double kMost = 1e30;

  double next(double least, double most) {
    if (numbers_.empty()) return 0;
    const double x = numbers_.front();
    numbers_ = numbers_.subspan(1);
    if (!(x >= least && x <= most)) fail("{} has {}, expected {} to {}", where_, x, least, most);
    return x;
  }

  std::span<const double> numbers_;
  std::string_view where_;
};

}  // namespace ft::speculation
