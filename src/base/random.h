// Counter-based randomness: a value is a pure function of its key, so nothing is saved, cloned or
// restored.
#pragma once

#include <cstdint>

namespace ft {

/// What a random number is for. Streams of different purposes never meet, even at the same seed and
/// position.
enum class NoisePurpose : std::uint32_t { kTarget = 1, kDraft = 2, kAccept = 3, kResidual = 4 };

/// 64 well-mixed bits for (seed, purpose, position, index). Philox4x32-10 (Salmon et al. 2011,
/// Random123), key = seed, counter = (index, position low, position high, purpose).
std::uint64_t noise_bits(std::uint64_t seed,
                         NoisePurpose purpose,
                         std::uint64_t position,
                         std::uint32_t index);

/// Uniform in the open interval (0, 1), never 0 or 1; 52 bits of the value above.
double noise_uniform(std::uint64_t seed,
                     NoisePurpose purpose,
                     std::uint64_t position,
                     std::uint32_t index);

}  // namespace ft
