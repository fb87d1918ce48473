// Scratch memory of one forward at a time.
#pragma once

#include "base/types.h"
#include "base/work_meter.h"
#include "experts/routing_memory.h"

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

  /// Where forwards note which experts their rows chose; it must outlive them; null: nowhere.
  void set_routing_memory(experts::RoutingMemory* memory) noexcept { routing_memory_ = memory; }
  experts::RoutingMemory* routing_memory() const noexcept { return routing_memory_; }

  /// Tokens that may be fed next, after those of the coming forwards, the likeliest first: what
  /// they chose when last seen is read ahead. The tokens must outlive those forwards; empty:
  /// nothing is.
  void set_hints(TokenSpan hints) noexcept { hints_ = hints; }
  TokenSpan hints() const noexcept { return hints_; }

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
  experts::RoutingMemory* routing_memory_ = nullptr;
  TokenSpan hints_;
  std::function<void(std::size_t, std::size_t)> progress_;
};

}  // namespace ft::models
