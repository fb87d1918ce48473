#include "base/work_meter.h"

namespace ft {

WorkTotals WorkTotals::since(const WorkTotals& earlier) const noexcept {
  WorkTotals out;
  for (std::size_t i = 0; i < kNStages; ++i) out.stage_us[i] = stage_us[i] - earlier.stage_us[i];
  out.weight_bytes = weight_bytes - earlier.weight_bytes;
  return out;
}

Stage WorkMeter::enter(Stage stage) noexcept {
  const std::int64_t now_us = clock_.now_us();
  totals_.stage_us[static_cast<std::size_t>(stage_)] += now_us - since_us_;
  since_us_ = now_us;
  const Stage before = stage_;
  stage_ = stage;
  return before;
}

const WorkTotals& WorkMeter::totals() noexcept {
  enter(stage_);
  return totals_;
}

}  // namespace ft
