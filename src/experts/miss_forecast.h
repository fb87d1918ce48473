// How many experts a coming forward is likely to find missing. Learns from every pass; the store
// calls it under its lock and knows who is resident.
#pragma once

#include "experts/usage.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ft::experts {

/// A row asks for `per row` experts of a layer. Each of them is one that was used of late, with a
/// probability that is learned, or else one by its share of all uses over the long run. Rows of a
/// forward ask independently. What that gets wrong, a factor per number of rows makes up for. Not
/// thread-safe.
class MissForecast {
 public:
  static constexpr std::size_t kMaxRows = 65;  // larger forwards are not calibrated on their own

  /// The experts of a layer, [first, first + n).
  struct Layer {
    ExpertId first = 0;
    std::size_t n = 0;
  };

  /// n_layers: that have a turn in a whole pass; max_experts: of the largest.
  MissForecast(std::size_t n_layers, std::size_t max_experts);

  void begin_pass(std::size_t n_rows) noexcept;
  /// A layer has its turn: before its uses are counted. n_missing: of those asked for.
  void begin_turn(const ExpertUsage& usage, Layer layer) noexcept;
  void asked(ExpertId expert) noexcept;
  void end_turn(std::size_t n_missing) noexcept;
  void end_pass() noexcept;

  // A forecast: begin, then per layer chances() and add(), then finish().
  void begin() noexcept;
  /// Per expert of the layer: probability that a row asks for it. Set those that would not be
  /// missing to 0. Valid until the next call of anything.
  std::span<float> chances(const ExpertUsage& usage, Layer layer) noexcept;
  /// n_missing[i] grows by what i + 1 rows are expected to find missing among those of chances();
  /// nothing is added for more than kMaxRows.
  void add(std::span<double> n_missing) const noexcept;
  /// Calibrates; more rows never miss less, and those beyond kMaxRows as many. False if no pass has
  /// told how many experts a row asks for: then all are 0.
  bool finish(std::span<double> n_missing) noexcept;

  /// How often a choice is one of those used of late.
  double reuse() const noexcept { return reuse_; }
  /// Experts of a layer that a row asks for; 0 before the first pass.
  double per_row() const noexcept { return per_row_; }

 private:
  struct Sums {
    double predicted = 0;
    double actual = 0;
  };

  void read(const ExpertUsage& usage, Layer layer) noexcept;
  double factor(std::size_t n_rows) const noexcept;

  std::size_t n_layers_;
  std::vector<float> recent_;  // of the layer at hand
  std::vector<float> heat_;
  ExpertId first_ = 0;
  std::size_t n_padded_ = 0;  // a multiple of the lanes of add()
  double recent_sum_ = 0;
  double heat_sum_ = 0;

  double reuse_;
  double per_row_ = 0;
  bool is_per_row_exact_ = false;
  std::array<Sums, kMaxRows> by_rows_{};  // [n_rows - 1]
  Sums all_;
  std::array<double, kMaxRows> latest_{};  // before calibration
  std::size_t n_latest_ = 0;

  // Of the pass at hand:
  std::size_t n_rows_ = 0;
  std::size_t n_turns_ = 0;
  std::size_t n_asked_ = 0;
  std::size_t n_missing_ = 0;
  std::size_t n_weighed_ = 0;
  double reused_ = 0;
};

}  // namespace ft::experts
