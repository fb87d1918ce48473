// All experts in memory, or mapped: a lease is ready at once.
#pragma once

#include "experts/expert_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ft::experts {

class ResidentStore final : public ExpertStore {
 public:
  /// `layers[i]`: the experts of layer i, none for a dense layer. What their weights point into
  /// must outlive the store.
  explicit ResidentStore(std::vector<std::vector<Expert>> layers) noexcept
      : layers_(std::move(layers)) {}

  ExpertLease acquire(std::size_t layer, std::span<const std::uint32_t> experts) override;
  void prefetch(std::size_t, std::span<const std::uint32_t>) noexcept override {}
  void prefetch_hinted(std::size_t, std::span<const std::uint32_t>) noexcept override {}
  std::size_t n_missing(std::size_t, std::span<const std::uint32_t>) const override { return 0; }
  bool forecast_missing(std::span<double> bytes) noexcept override {
    std::ranges::fill(bytes, 0.0);
    return false;
  }
  bool begin_pass(std::size_t) noexcept override { return false; }
  void end_pass() noexcept override {}
  ExpertStats stats() const override { return {}; }

 private:
  std::vector<std::vector<Expert>> layers_;
};

}  // namespace ft::experts
