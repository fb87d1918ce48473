#include "kernels/cpu/avx2/avx2_kernels.h"
#include "kernels/cpu/avx2/vec.h"
// After vec.h.
#include "kernels/cpu/simd/int8_rows-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
