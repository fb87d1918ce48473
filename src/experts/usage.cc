#include "experts/usage.h"

#include <array>

namespace ft::experts {
namespace {

// A use counts half after about 1400 passes: several answers, but not last week's work.
constexpr double kHeatKept = 0.9995;
// What is left of a use by the number of passes since: the set of the last pass says most about the
// next one, the set before it little.
constexpr std::array<double, 6> kRecencyKept = {1, 0.3, 0.09, 0.027, 0.0081, 0.00243};
// Far from the largest double; rescaling is a pass over all experts, rare by this.
constexpr double kMaxWeight = 1e100;

}  // namespace

void ExpertUsage::used(ExpertId expert) noexcept {
  Record& record = records_[expert];
  record.recent = recency(expert) + 1;
  record.recent_pass = pass_;
  record.heat += weight_;
  record.last_tick = ++tick_;
}

double ExpertUsage::recency(ExpertId expert) const noexcept {
  const Record& record = records_[expert];
  const std::uint64_t age = pass_ - record.recent_pass;
  return age < kRecencyKept.size() ? record.recent * kRecencyKept[age] : 0;
}

double ExpertUsage::distance(ExpertId expert) const noexcept {
  const std::size_t n = records_.size();
  return static_cast<double>((expert + n - next_ % n) % n) / static_cast<double>(n);
}

void ExpertUsage::end_pass() noexcept {
  ++pass_;
  passes_ = passes_ * kHeatKept + 1;
  weight_ /= kHeatKept;
  if (weight_ < kMaxWeight) return;
  for (Record& record : records_) record.heat /= weight_;
  weight_ = 1;
}

}  // namespace ft::experts
