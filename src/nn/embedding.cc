#include "nn/embedding.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <cstddef>

namespace ft::nn {

void embed(const StoredMatrix& table, TokenSpan tokens, MutableMatrix x) {
  FT_CHECK(x.n_rows == tokens.size() && x.n_cols == table.n_cols);
  FT_CHECK(table.col_stride == 1 && table.scales == nullptr);
  const std::size_t width_bytes = element_bytes(table.dtype);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i]);
    FT_CHECK(id < table.n_rows);
    const std::byte* row = table.data + id * table.row_stride * width_bytes;
    convert_to_float(table.dtype, {row, table.n_cols * width_bytes}, x.row(i));
  }
}

}  // namespace ft::nn
