#include "kernels/cpu/neon/neon_kernels.h"
#include "kernels/cpu/neon/vec.h"
// After vec.h.
#include "kernels/cpu/simd/int8_rows-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
