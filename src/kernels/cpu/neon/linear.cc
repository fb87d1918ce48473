#include "kernels/cpu/neon/neon_kernels.h"
#include "kernels/cpu/neon/panels.h"

namespace ft::kernels::neon {
// 32 registers of four lanes: at most 24 accumulators and four decoded vectors.
inline constexpr std::size_t kRegisters = 32;
inline constexpr std::size_t kMaxPairRows = 1;
inline constexpr std::size_t kMaxTileRows = 3;
inline constexpr std::size_t kBlockRows = 6;
inline constexpr std::size_t kBlockVecs = 4;
}  // namespace ft::kernels::neon

#include "kernels/cpu/simd/linear_tasks-inl.h"

namespace ft::kernels::neon {

const WeightFormat kWeightFormat = {
    .unit_outputs = kUnitOutputs,
    .tile_units = kTileUnits,
    .positions = {kPositions.plain, kPositions.pairs, kPositions.plain, kPositions.f8},
    .f8_factor = kF8Factor};

}  // namespace ft::kernels::neon
