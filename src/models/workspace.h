// Scratch memory of one forward at a time.
#pragma once

#include "base/work_meter.h"

#include <cstddef>
#include <functional>
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

  /// Model::forward calls it after every layer but the last, with the number of layers done and of
  /// all; may be empty.
  void set_progress(std::function<void(std::size_t, std::size_t)> progress) {
    progress_ = std::move(progress);
  }
  void report(std::size_t n_done, std::size_t n_layers) const {
    if (progress_) progress_(n_done, n_layers);
  }

 private:
  WorkMeter* meter_ = nullptr;
  std::stop_token stop_;
  std::function<void(std::size_t, std::size_t)> progress_;
};

}  // namespace ft::models
