#include "tensor/formats/quantized_copy.h"

#include <algorithm>
#include <vector>

namespace ft {
namespace {

/// Panels per task: enough work to pay for a fork, little enough to balance.
constexpr std::size_t kPanelsPerTask = 4;

}  // namespace

QuantizedCopy::QuantizedCopy(QuantFormat format, const StoredMatrix& source, ThreadPool& pool) {
  view_.format = format;
  view_.n_rows = source.n_rows;
  view_.n_cols = source.n_cols;
  codes_ = Buffer(view_.code_bytes());
  scales_ = Buffer(view_.scale_bytes());
  view_.codes = codes_.data();
  view_.scales = scales_.data();
  const std::size_t n_panels = view_.n_panels();
  const std::size_t panel_codes = view_.code_bytes() / std::max<std::size_t>(1, n_panels);
  const std::size_t panel_scales = view_.scale_bytes() / std::max<std::size_t>(1, n_panels);
  const auto convert = [&](std::size_t begin, std::size_t end, std::size_t) {
    std::vector<float> rows(kPanelRows * source.n_cols);
    for (std::size_t panel = begin; panel < end; ++panel) {
      const std::size_t first = panel * kPanelRows;
      const std::size_t n = std::min(kPanelRows, source.n_rows - first);
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t c = 0; c < source.n_cols; ++c) {
          rows[r * source.n_cols + c] = source.at(first + r, c);
        }
      }
      quantize_panel(format,
                     rows.data(),
                     n,
                     source.n_cols,
                     source.n_cols,
                     codes_.data() + panel * panel_codes,
                     scales_.data() + panel * panel_scales);
    }
  };
  pool.parallel_for(n_panels, kPanelsPerTask, convert);
}

}  // namespace ft
