#include "experts/usage.h"

#include <algorithm>
#include <array>

namespace ft::experts {
namespace {

// A use counts half after about 1400 passes: several answers, but not last week's work.
constexpr double kHeatKept = 0.9995;
// What is left of a use by the number of passes since: the set of the last pass says most about the
// next one, the set before it little.
constexpr std::array<double, 7> kRecencyKept = {1, 0.3, 0.09, 0.027, 0.0081, 0.00243, 0};
// Of a guess, in uses: the next layer's router foretells with about 70 % what a use in the last
// turn foretells with 41 %.
constexpr double kGuessWeight = 2;
// What a token chose when it was last fed may foretell less than a use in the last turn, and the
// token may not come: it makes nothing leave that was used in its layer's last turn.
constexpr double kHintWeight = 0.8;
// Far from the largest double; rescaling is a pass over all experts, rare by this.
constexpr double kMaxWeight = 1e100;

}  // namespace

void ExpertUsage::used(ExpertId expert) noexcept {
  Record& record = records_[expert];
  record.recent = recency(expert) * kRecencyKept[1] + 1;
  record.recent_pass = pass_;
  record.heat += weight_;
  record.last_tick = ++tick_;
}

double ExpertUsage::recency(ExpertId expert) const noexcept {
  const Record& record = records_[expert];
  std::uint64_t age = pass_ - record.recent_pass;
  age -= static_cast<std::uint64_t>(age > 0) &
         static_cast<std::uint64_t>(expert >= next_);  // its turn in this pass is still to come
  // Without a branch: a forecast asks for all experts, whose ages follow no pattern.
  return record.recent * kRecencyKept[std::min<std::uint64_t>(age, kRecencyKept.size() - 1)];
}

void ExpertUsage::read(ExpertId first,
                       std::span<float> recent,
                       std::span<float> heat) const noexcept {
  // recency() and heat() with all that is the same for many experts outside of the loops.
  const double per_weight = 1 / weight_;
  const std::uint64_t pass = pass_;
  const Record* const records = records_.data() + first;
  const auto read_one = [&](std::size_t i, std::uint64_t age) {
    const double kept = kRecencyKept[std::min<std::uint64_t>(age, kRecencyKept.size() - 1)];
    recent[i] = static_cast<float>(records[i].recent * kept);
    heat[i] = static_cast<float>(records[i].heat * per_weight);
  };
  const std::size_t n_over = std::min<std::size_t>(next_ - std::min(first, next_), recent.size());
  for (std::size_t i = 0; i < n_over; ++i) read_one(i, pass - records[i].recent_pass);
  for (std::size_t i = n_over; i < recent.size(); ++i) {
    const std::uint64_t age = pass - records[i].recent_pass;
    read_one(i, age - static_cast<std::uint64_t>(age > 0));
  }
}

void ExpertUsage::guessed(ExpertId expert) noexcept {
  Record& record = records_[expert];
  record.recent = kGuessWeight;
  record.recent_pass = pass_ - 1;  // so that its turn, if it brings no use, takes the weight away
  record.last_tick = ++tick_;
}

void ExpertUsage::hinted(ExpertId expert) noexcept {
  Record& record = records_[expert];
  record.recent = kHintWeight;
  record.recent_pass = pass_;
  record.last_tick = ++tick_;
}

void ExpertUsage::end_pass() noexcept {
  ++pass_;
  next_ = 0;
  passes_ = passes_ * kHeatKept + 1;
  weight_ /= kHeatKept;
  if (weight_ < kMaxWeight) return;
  for (Record& record : records_) record.heat /= weight_;
  weight_ = 1;
}

}  // namespace ft::experts
