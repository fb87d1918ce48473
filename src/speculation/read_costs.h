// What missing experts cost a forward: how far a prediction of their bytes can be believed, and
// what of the time to read them is not hidden behind computing. Learned from rounds; a value, no
// clock.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace ft::speculation {

/// By rows of the forward; a width that was not measured is believed to do as the others.
class ReadCosts {
 public:
  /// predicted_bytes: [n] for n + 1 rows, as in PlanInputs. Of the forward's n_rows: the bytes that
  /// were missing, and the time that computing waited for them.
  void observe(std::span<const double> predicted_bytes,
               std::size_t n_rows,
               double read_bytes,
               double stall_us);
  /// The prediction, drawn towards the mean of those before it by as much as they told too little
  /// of what was read.
  std::vector<double> believed(std::span<const double> predicted_bytes) const;
  /// The wait for so many believed bytes; 0 before anything was read.
  double stall_us(std::size_t n_rows, double believed_bytes) const;

  /// All that it is made of, see number_list.h; of the predictions those that a round can be asked
  /// for, at most kMaxDraftTokens + 1.
  std::vector<double> numbers() const;
  /// Makes these the costs that have these numbers. Throws InvalidInput naming `where` if none
  /// have.
  void set_numbers(std::span<const double> numbers, std::string_view where);

 private:
  struct Sums {
    double predicted_bytes = 0;
    double read_bytes = 0;
    double stall_us = 0;
  };
  double correction(std::size_t n_rows) const;
  double us_per_byte(std::size_t n_rows) const;  // read, not believed
  double blended(std::size_t n_rows, double Sums::*sum) const {
    return sums_.at(n_rows).*sum + kSharedWeight * (all_.*sum);
  }

  template <typename Numbers>
  void each_field(Numbers& numbers);

  // A width stands for itself by as much as it weighs against this share of all widths.
  static constexpr double kSharedWeight = 0.15;

  std::array<Sums, kMaxDraftTokens + 2> sums_{};
  Sums all_;
  std::vector<double> mean_bytes_;  // [n]: of the predictions
  std::size_t n_predictions_ = 0;
  // Of deviations from the means, relative: what was read by what was predicted.
  double products_ = 0;
  double squares_ = 0;
};

}  // namespace ft::speculation
