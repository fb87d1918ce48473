// What a request leaves open, the model's generation_config.json decides.
#pragma once

#include "foretoken/request.h"
#include "json/json.h"
#include "sampling/sampler.h"

#include <cstdint>
#include <functional>

namespace ft::engine {

struct SamplingDefaults {
  float temperature = 1;
  float top_p = 1;
  std::size_t top_k = 0;
};

/// From generation_config.json (null: the model has none). `do_sample: false` means temperature 0.
/// Throws InvalidInput naming the member whose value cannot be.
SamplingDefaults sampling_defaults(const json::Value& generation_config);

/// The request's options over the model's. `draw_seed` is called if the request brings none. Ranges
/// are the Sampler's to check.
sampling::SamplingParams resolve_sampling(const foretoken::SamplingOptions& options,
                                          const SamplingDefaults& defaults,
                                          const std::function<std::uint64_t()>& draw_seed);

/// A seed from the operating system's entropy, below 2^53 so that every JSON reader keeps it
/// exactly.
std::uint64_t draw_seed();

}  // namespace ft::engine
