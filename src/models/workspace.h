// Scratch memory of one forward at a time.
#pragma once

#include "base/work_meter.h"

#include <stop_token>
#include <utility>

namespace ft::models {

/// Made by the model or draft head that will use it; holds the buffers its results point into. Not
/// thread-safe.
class Workspace {
 public:
  virtual ~Workspace() = default;

  /// Forwards on this workspace report to `meter`, which must outlive them; null: to nobody.
  void set_meter(WorkMeter* meter) noexcept { meter_ = meter; }
  WorkMeter* meter() const noexcept { return meter_; }

  /// Ends forwards on this workspace wherever they wait. Model::forward sets its own.
  void set_stop(std::stop_token stop) noexcept { stop_ = std::move(stop); }
  const std::stop_token& stop() const noexcept { return stop_; }

 private:
  WorkMeter* meter_ = nullptr;
  std::stop_token stop_;
};

}  // namespace ft::models
