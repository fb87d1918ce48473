#include "nn/embedding.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <cstddef>

namespace ft::nn {

void embed(const EmbeddingTable& table, TokenSpan tokens, MutableMatrix x) {
  FT_CHECK(x.n_rows == tokens.size() && x.n_cols == table.n_cols());
  const StoredMatrix& elements = table.elements;
  FT_CHECK(elements.col_stride == 1 && elements.scales == nullptr);
  const std::size_t width_bytes = element_bytes(elements.dtype);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i]);
    FT_CHECK(id < table.n_rows());
    if (table.is_in_panels()) {
      for (std::size_t c = 0; c < x.n_cols; ++c) x.row(i)[c] = table.panels.at(id, c);
    } else {
      const std::byte* row = elements.data + id * elements.row_stride * width_bytes;
      convert_to_float(elements.dtype, {row, elements.n_cols * width_bytes}, x.row(i));
    }
  }
}

}  // namespace ft::nn
