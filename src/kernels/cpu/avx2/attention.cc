#include "kernels/cpu/avx2/avx2_kernels.h"
#include "kernels/cpu/avx2/vec.h"
// After vec.h.
#include "kernels/cpu/simd/attend-inl.h"
#include "kernels/cpu/simd/index_scores-inl.h"
#include "kernels/cpu/simd/top_k-inl.h"
