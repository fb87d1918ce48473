#include "kernels/cpu/avx512/avx512_kernels.h"
#include "kernels/cpu/avx512/vec.h"
// After vec.h.
#include "kernels/cpu/simd/attend-inl.h"
#include "kernels/cpu/simd/index_scores-inl.h"
#include "kernels/cpu/simd/top_k-inl.h"
