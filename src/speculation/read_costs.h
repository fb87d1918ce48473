// What missing experts cost a forward: how far a prediction of their bytes is right, and what of
// the time to read them is not hidden behind computing. Learned from rounds; a value, no clock.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>

namespace ft::speculation {

/// By rows of the forward; a width that was not measured is believed to do as the others.
class ReadCosts {
 public:
  /// predicted_bytes, read_bytes: of the experts that were missing. stall_us: time that computing
  /// waited for them.
  void observe(std::size_t n_rows, double predicted_bytes, double read_bytes, double stall_us);
  /// The wait for what is predicted to be missing; 0 before anything was read.
  double stall_us(std::size_t n_rows, double predicted_bytes) const;

 private:
  struct Sums {
    double predicted_bytes = 0;
    double read_bytes = 0;
    double stall_us = 0;
  };
  std::array<Sums, kMaxDraftTokens + 2> sums_{};
  Sums all_;
};

}  // namespace ft::speculation
