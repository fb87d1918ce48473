// Where the time of a request goes and how many weight bytes its products read. Who measures lends
// a meter to the parts that work; a null pointer means that nobody asked, and costs a comparison.
#pragma once

#include "base/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ft {

/// kOther is what no other stage claims. Within kDraft everything is kDraft.
enum class Stage : std::uint8_t {
  kOther,
  kAttention,  // projections, keys, attention
  kIndexer,    // scores and selection; the indexer's projections travel with those of attention
  kExperts,    // router, routed and shared experts
  kDense,      // feed-forward of dense layers
  kHead,       // final norm and logits
  kSampling,   // tokens from logits, acceptance
  kDraft,      // proposing drafts and showing sources what was committed
};
inline constexpr std::size_t kNStages = 8;

struct WorkTotals {
  std::array<std::int64_t, kNStages> stage_us{};
  std::uint64_t weight_bytes = 0;

  std::int64_t us(Stage stage) const noexcept { return stage_us[static_cast<std::size_t>(stage)]; }
  /// What was added after `earlier`.
  WorkTotals since(const WorkTotals& earlier) const noexcept;
};

/// Every moment belongs to exactly one stage, so the stages add up to the time since construction.
class WorkMeter {
 public:
  /// `clock` must outlive the meter. Starts in kOther.
  explicit WorkMeter(const Clock& clock) noexcept : clock_(clock), since_us_(clock.now_us()) {}

  /// From now on time belongs to `stage`. Returns the stage before.
  Stage enter(Stage stage) noexcept;
  Stage stage() const noexcept { return stage_; }
  void add_weight_bytes(std::uint64_t n) noexcept { totals_.weight_bytes += n; }
  /// Up to now.
  const WorkTotals& totals() noexcept;

 private:
  const Clock& clock_;
  std::int64_t since_us_;
  Stage stage_ = Stage::kOther;
  WorkTotals totals_;
};

/// A stage for a scope.
class StageScope {
 public:
  StageScope(WorkMeter* meter, Stage stage) noexcept
      : meter_(meter != nullptr && meter->stage() == Stage::kDraft ? nullptr : meter) {
    if (meter_ != nullptr) outer_ = meter_->enter(stage);
  }
  ~StageScope() {
    if (meter_ != nullptr) meter_->enter(outer_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  StageScope(StageScope&&) = delete;
  StageScope& operator=(StageScope&&) = delete;

 private:
  WorkMeter* meter_;
  Stage outer_ = Stage::kOther;
};

}  // namespace ft
