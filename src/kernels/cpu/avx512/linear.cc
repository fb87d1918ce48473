#include "kernels/cpu/avx512/avx512_kernels.h"
#include "kernels/cpu/avx512/panels.h"

namespace ft::kernels::avx512 {
// 32 registers: at most 24 accumulators, four decoded vectors, the decoder's tables.
inline constexpr std::size_t kRegisters = 32;
inline constexpr std::size_t kMaxPairRows = 5;
inline constexpr std::size_t kMaxTileRows = 12;
inline constexpr std::size_t kBlockRows = 12;
inline constexpr std::size_t kBlockVecs = 2;
}  // namespace ft::kernels::avx512

#include "kernels/cpu/simd/linear_tasks-inl.h"

namespace ft::kernels::avx512 {

const WeightFormat kWeightFormat = {
    .unit_outputs = kUnitOutputs,
    .tile_units = kTileUnits,
    .positions = {kPositions.plain, kPositions.pairs, kPositions.plain, kPositions.f8},
    .marks_tiny_f8 = true};

}  // namespace ft::kernels::avx512
