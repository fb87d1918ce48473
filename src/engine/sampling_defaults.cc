#include "engine/sampling_defaults.h"

#include "base/error.h"

#include <cmath>
#include <string>
#include <sys/random.h>

namespace ft::engine {
namespace {

constexpr const char* kFile = "generation_config.json";

// Members that are absent or null keep the default.
const json::Value* member(const json::Value& config, const char* name) {
  const json::Value* value = config.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

float ranged(const json::Value& value, const char* name, double low, double high) {
  const double number = value.as_real(std::string(kFile) + ": " + name);
  if (!(number >= low && number <= high)) {
    fail("{}: {} is {}, expected {} to {}; mend the file", kFile, name, number, low, high);
  }
  return static_cast<float>(number);
}

}  // namespace

SamplingDefaults sampling_defaults(const json::Value& generation_config) {
  SamplingDefaults out;
  if (generation_config.is_null()) return out;
  if (!generation_config.is_object()) fail("{}: expected a JSON object", kFile);
  if (const json::Value* value = member(generation_config, "temperature")) {
    out.temperature = ranged(*value, "temperature", 0, 1e6);
  }
  if (const json::Value* value = member(generation_config, "top_p")) {
    out.top_p = ranged(*value, "top_p", 1e-9, 1);
  }
  if (const json::Value* value = member(generation_config, "top_k")) {
    const std::int64_t top_k = value->as_integer(std::string(kFile) + ": top_k");
    if (top_k < 0) fail("{}: top_k is {}, expected 0 or more; mend the file", kFile, top_k);
    out.top_k = static_cast<std::size_t>(top_k);
  }
  if (const json::Value* value = member(generation_config, "do_sample")) {
    if (!value->as_bool(std::string(kFile) + ": do_sample")) out.temperature = 0;
  }
  return out;
}

sampling::SamplingParams resolve_sampling(const foretoken::SamplingOptions& options,
                                          const SamplingDefaults& defaults,
                                          const std::function<std::uint64_t()>& draw_seed) {
  sampling::SamplingParams out;
  out.temperature = options.temperature.value_or(defaults.temperature);
  out.top_p = options.top_p.value_or(defaults.top_p);
  out.top_k = options.top_k.value_or(defaults.top_k);
  out.min_p = options.min_p;
  out.repetition_penalty = options.repeat_penalty;
  out.presence_penalty = options.presence_penalty;
  out.frequency_penalty = options.frequency_penalty;
  out.logit_bias = options.logit_bias;
  out.seed = options.seed ? *options.seed : draw_seed();
  return out;
}

std::uint64_t draw_seed() {
  std::uint64_t bits = 0;
  if (getentropy(&bits, sizeof bits) != 0)
    throw IoError("the operating system gave no entropy for a seed; pass one");
  return bits >> 11U;
}

}  // namespace ft::engine
