// Token ids to rows of the embedding table, which stays in its stored width.
#pragma once

#include "base/types.h"
#include "tensor/formats/quantized_matrix.h"
#include "tensor/matrix.h"

namespace ft::nn {

/// One of the two is set.
struct EmbeddingTable {
  StoredMatrix elements;  // contiguous rows without scales
  QuantMatrix panels;

  std::size_t n_rows() const noexcept { return is_in_panels() ? panels.n_rows : elements.n_rows; }
  std::size_t n_cols() const noexcept { return is_in_panels() ? panels.n_cols : elements.n_cols; }
  bool is_in_panels() const noexcept { return panels.codes != nullptr; }
};

/// x[i] = table row tokens[i] in f32. Ids must be below table.n_rows().
void embed(const EmbeddingTable& table, TokenSpan tokens, MutableMatrix x);

}  // namespace ft::nn
