#include "tensor/formats/quantized_copy.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ft {
namespace {

/// Panels per task: enough work to pay for a fork, little enough to balance.
constexpr std::size_t kPanelsPerTask = 4;

/// Panels [begin, end) of the matrix; destinations are those of the whole.
void quantize_panels(QuantFormat format,
                     const StoredMatrix& source,
                     std::size_t begin,
                     std::size_t end,
                     std::byte* codes,
                     std::byte* scales) {
  const std::size_t n_cols = source.n_cols;
  const std::size_t n_blocks = (n_cols + kQuantGroup - 1) / kQuantGroup;
  const std::size_t panel_codes = n_blocks * block_code_bytes(format);
  const std::size_t panel_scales = n_blocks * kPanelRows * sizeof(std::uint16_t);
  std::vector<float> rows(kPanelRows * n_cols);
  for (std::size_t panel = begin; panel < end; ++panel) {
    const std::size_t first = panel * kPanelRows;
    const std::size_t n = std::min(kPanelRows, source.n_rows - first);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n_cols; ++c) rows[r * n_cols + c] = source.at(first + r, c);
    }
    quantize_panel(format,
                   rows.data(),
                   n,
                   n_cols,
                   n_cols,
                   codes + panel * panel_codes,
                   scales + panel * panel_scales);
  }
}

}  // namespace

void quantize_matrix(QuantFormat format,
                     const StoredMatrix& source,
                     std::byte* codes,
                     std::byte* scales) {
  quantize_panels(format, source, 0, (source.n_rows + kPanelRows - 1) / kPanelRows, codes, scales);
}

QuantizedCopy::QuantizedCopy(QuantFormat format, const StoredMatrix& source, ThreadPool& pool) {
  view_.format = format;
  view_.n_rows = source.n_rows;
  view_.n_cols = source.n_cols;
  codes_ = Buffer(view_.code_bytes());
  scales_ = Buffer(view_.scale_bytes());
  view_.codes = codes_.data();
  view_.scales = scales_.data();
  pool.parallel_for(
      view_.n_panels(), kPanelsPerTask, [&](std::size_t begin, std::size_t end, std::size_t) {
        quantize_panels(format, source, begin, end, codes_.data(), scales_.data());
      });
}

}  // namespace ft
