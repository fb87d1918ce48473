// Scratch memory of one forward at a time.
#pragma once

#include "base/work_meter.h"

namespace ft::models {

/// Made by the model or draft head that will use it; holds the buffers its results point into. Not
/// thread-safe.
class Workspace {
 public:
  virtual ~Workspace() = default;

  /// Forwards on this workspace report to `meter`, which must outlive them; null: to nobody.
  void set_meter(WorkMeter* meter) noexcept { meter_ = meter; }
  WorkMeter* meter() const noexcept { return meter_; }

 private:
  WorkMeter* meter_ = nullptr;
};

}  // namespace ft::models
