#include "kernels/cpu/avx2/avx2_kernels.h"
#include "kernels/cpu/avx2/panels.h"

namespace ft::kernels::avx2 {
// 16 registers: eight accumulators beside four decoded vectors, twelve beside plain loads.
inline constexpr std::size_t kRegisters = 16;
inline constexpr std::size_t kMaxPairRows = 1;
inline constexpr std::size_t kMaxTileRows = 4;
inline constexpr std::size_t kBlockRows = 6;
inline constexpr std::size_t kBlockVecs = 2;
}  // namespace ft::kernels::avx2

#include "kernels/cpu/simd/linear_tasks-inl.h"

namespace ft::kernels::avx2 {

const WeightFormat kWeightFormat = {
    .unit_outputs = kUnitOutputs,
    .tile_units = kTileUnits,
    .positions = {kPositions.plain, kPositions.pairs, kPositions.plain, kPositions.f8},
    .f8_factor = kF8Factor};

}  // namespace ft::kernels::avx2
