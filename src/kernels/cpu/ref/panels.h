// Integer weights for ref's linear.cc.
#pragma once

#include "base/function_ref.h"
#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::ref {

/// use(row, packed output, row's product with it), outputs outermost, in order.
using RowOutputs = FunctionRef<void(std::size_t row, std::size_t out, float value)>;
void multiply_panels(const LinearTask& task, const RowOutputs& use);

}  // namespace ft::kernels::ref
