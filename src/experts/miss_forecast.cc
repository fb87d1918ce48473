#include "experts/miss_forecast.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ft::experts {
namespace {

// Consecutive tokens of GLM-5.2 share about 41 % of their experts, a part of them by chance.
constexpr double kPriorReuse = 0.35;
// Of one pass in what is learned: some tens of passes count.
constexpr double kLearningRate = 0.05;
// Imagined uses of every expert: the first real ones are not all there is.
constexpr float kPriorUses = 0.5F;
// Of a pass's counts in later ones: the last twenty or so calibrate.
constexpr double kKept = 0.95;
// Experts that the calibration of all widths, and of one width, starts with as if they had come as
// predicted.
constexpr double kPriorExperts = 8;
constexpr double kMaxFactor = 8;
// Sums run side by side: so many independent additions fill the vector units of any processor. As
// vectors, since the compiler keeps arrays of lanes in memory, where each addition waits for the
// one before.
constexpr std::size_t kLanes = 8;
using Lanes [[gnu::vector_size(sizeof(float) * kLanes / 2)]] = float;

/// kLanes values.
struct Pair {
  Lanes low{};
  Lanes high{};
};

Pair load(const float* values) noexcept {
  Pair out;
  std::memcpy(&out.low, values, sizeof out.low);
  std::memcpy(&out.high, values + kLanes / 2, sizeof out.high);
  return out;
}

double sum_of(Lanes lanes) noexcept {
  double sum = 0;
  for (std::size_t k = 0; k < kLanes / 2; ++k) sum += static_cast<double>(lanes[k]);
  return sum;
}

// A multiple of kLanes.
double sum_of(std::span<const float> values) noexcept {
  Pair sums;
  for (std::size_t i = 0; i < values.size(); i += kLanes) {
    const Pair next = load(&values[i]);
    sums.low += next.low;
    sums.high += next.high;
  }
  return sum_of(sums.low + sums.high);
}

}  // namespace

MissForecast::MissForecast(std::size_t n_layers, std::size_t max_experts)
    : n_layers_(n_layers),
      recent_((max_experts + kLanes - 1) / kLanes * kLanes),
      heat_(recent_.size()),
      reuse_(kPriorReuse) {}

void MissForecast::begin_pass(std::size_t n_rows) noexcept {
  n_rows_ = n_rows;
  n_turns_ = 0;
  n_asked_ = 0;
  n_missing_ = 0;
  n_weighed_ = 0;
  reused_ = 0;
}

void MissForecast::read(const ExpertUsage& usage, Layer layer) noexcept {
  first_ = layer.first;
  n_padded_ = (layer.n + kLanes - 1) / kLanes * kLanes;
  usage.read(layer.first, std::span(recent_).first(layer.n), std::span(heat_).first(layer.n));
  for (std::size_t i = 0; i < layer.n; ++i) heat_[i] += kPriorUses;
  for (std::size_t i = layer.n; i < n_padded_; ++i) recent_[i] = heat_[i] = 0;
  recent_sum_ = sum_of(std::span(recent_).first(n_padded_));
  heat_sum_ = sum_of(std::span(heat_).first(n_padded_));
}

void MissForecast::begin_turn(const ExpertUsage& usage, Layer layer) noexcept {
  read(usage, layer);
}

// A step of expectation maximisation for the weight of a mixture of two known parts.
void MissForecast::asked(ExpertId expert) noexcept {
  ++n_asked_;
  if (recent_sum_ <= 0) return;
  const std::size_t i = expert - first_;
  const double as_reuse = reuse_ * static_cast<double>(recent_[i]) / recent_sum_;
  const double as_share = (1 - reuse_) * static_cast<double>(heat_[i]) / heat_sum_;
  reused_ += as_reuse / (as_reuse + as_share);
  ++n_weighed_;
}

void MissForecast::end_turn(std::size_t n_missing) noexcept {
  ++n_turns_;
  n_missing_ += n_missing;
}

void MissForecast::end_pass() noexcept {
  const bool is_whole = n_turns_ == n_layers_ && n_turns_ > 0 && n_rows_ > 0;
  if (!is_whole) return;  // cancelled, or it failed
  if (n_weighed_ > 0)
    reuse_ += kLearningRate * (reused_ / static_cast<double>(n_weighed_) - reuse_);
  const double per_turn = static_cast<double>(n_asked_) / static_cast<double>(n_turns_);
  if (n_rows_ == 1) {
    per_row_ = per_turn;
    is_per_row_exact_ = true;
  } else if (!is_per_row_exact_) {  // rows share experts: at least
    per_row_ = std::max(per_row_, per_turn / static_cast<double>(n_rows_));
  }
  if (n_rows_ <= n_latest_) {
    const double predicted = latest_[n_rows_ - 1];
    const auto actual = static_cast<double>(n_missing_);
    for (Sums* sums : {&by_rows_[n_rows_ - 1], &all_}) {
      sums->predicted = sums->predicted * kKept + predicted;
      sums->actual = sums->actual * kKept + actual;
    }
  }
  n_latest_ = 0;
}

void MissForecast::begin() noexcept {
  n_latest_ = 0;
}

std::span<float> MissForecast::chances(const ExpertUsage& usage, Layer layer) noexcept {
  read(usage, layer);
  const bool has_recent = recent_sum_ > 0;
  const auto of_recent = static_cast<float>(has_recent ? per_row_ * reuse_ / recent_sum_ : 0);
  const auto of_heat = static_cast<float>(per_row_ * (has_recent ? 1 - reuse_ : 1.0) / heat_sum_);
  for (std::size_t i = 0; i < layer.n; ++i) {
    const float chance = of_recent * recent_[i] + of_heat * heat_[i];
    recent_[i] = std::min(chance, 1.0F);
  }
  return std::span(recent_).first(layer.n);
}

void MissForecast::add(std::span<double> n_missing) const noexcept {
  const std::size_t n_widths = std::min(n_missing.size(), kMaxRows);
  std::array<Lanes, kMaxRows> sums;
  std::fill_n(sums.begin(), n_widths, Lanes{});
  for (std::size_t i = 0; i < n_padded_; i += kLanes) {
    const Pair by_one = load(&recent_[i]);
    const Pair not_by_one{1 - by_one.low, 1 - by_one.high};
    Pair none = not_by_one;  // probability that none of the rows so far asks
    for (std::size_t n = 0; n < n_widths; ++n) {
      sums[n] += none.low + none.high;
      none.low *= not_by_one.low;
      none.high *= not_by_one.high;
    }
  }
  for (std::size_t n = 0; n < n_widths; ++n)
    n_missing[n] += static_cast<double>(n_padded_) - sum_of(sums[n]);
}

double MissForecast::factor(std::size_t n_rows) const noexcept {
  const double overall = (all_.actual + kPriorExperts) / (all_.predicted + kPriorExperts);
  const Sums& own = by_rows_[std::min(n_rows, kMaxRows) - 1];
  const double factor = (own.actual + kPriorExperts * overall) / (own.predicted + kPriorExperts);
  return std::clamp(factor, 1 / kMaxFactor, kMaxFactor);
}

bool MissForecast::finish(std::span<double> n_missing) noexcept {
  if (per_row_ <= 0) {
    std::ranges::fill(n_missing, 0.0);
    return false;
  }
  n_latest_ = std::min(n_missing.size(), kMaxRows);
  std::copy_n(n_missing.begin(), n_latest_, latest_.begin());
  double least = 0;
  for (std::size_t i = 0; i < n_missing.size(); ++i) {
    least = std::max(least, n_missing[i] * factor(i + 1));
    n_missing[i] = least;
  }
  return true;
}

}  // namespace ft::experts
