#include "kernels/cpu/avx512/avx512_kernels.h"
#include "kernels/cpu/avx512/vec.h"
// After vec.h.
#include "kernels/cpu/simd/int8_rows-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
