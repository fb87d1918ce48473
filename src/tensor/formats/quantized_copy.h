// A quantized copy of a matrix, made in memory.
#pragma once

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tensor/formats/quantized_matrix.h"
#include "tensor/matrix.h"

#include <cstddef>

namespace ft {

/// Quantizes all panels of a matrix; see quantize_panel(). Elements must be finite. Destinations
/// hold the code_bytes() and scale_bytes() of a QuantMatrix of its shape with bf16 scales.
void quantize_matrix(QuantFormat format,
                     const StoredMatrix& source,
                     std::byte* codes,
                     std::byte* scales);

/// Owns the bytes its view points into.
class QuantizedCopy {
 public:
  /// Quantizes every element, which must be finite; see quantize_panel(). Panels are converted in
  /// parallel; the result does not depend on the threads.
  QuantizedCopy(QuantFormat format, const StoredMatrix& source, ThreadPool& pool);

  const QuantMatrix& view() const noexcept { return view_; }

 private:
  QuantMatrix view_;
  Buffer codes_;
  Buffer scales_;
};

}  // namespace ft
