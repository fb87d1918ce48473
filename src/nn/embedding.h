// Token ids to rows of the embedding table, which stays mapped in its stored width.
#pragma once

#include "base/types.h"
#include "tensor/matrix.h"

namespace ft::nn {

/// x[i] = table row tokens[i] in f32. Ids must be below table.n_rows; table rows are contiguous and
/// without scales.
void embed(const StoredMatrix& table, TokenSpan tokens, MutableMatrix x);

}  // namespace ft::nn
