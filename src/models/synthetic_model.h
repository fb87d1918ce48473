// Random models of GLM-5.2's shape in the container's formats, written as fast as the drive takes
// them, for measurements without the weights.
#pragma once

#include "base/thread_pool.h"
#include "models/conversion.h"
#include "models/synthetic_files.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

namespace ft::models {

struct SyntheticOptions {
  SyntheticShape shape;
  TargetFormat experts = TargetFormat::kQ4;  // kQ4, kQ8, kBF16 or kStored (fp8)
  TargetFormat dense = TargetFormat::kQ8;    // and the head, and the next-token layer
  /// Experts are used about as often as rank^-skew says, ranks drawn per layer; 0: evenly.
  double routing_skew = 0;
  std::uint64_t seed = 0;
  std::string converter;                                       // program and version
  std::function<void(std::uint64_t, std::uint64_t)> progress;  // bytes written, in total
};

/// Writes the container into `folder`; goes on where an earlier call with the same options was
/// stopped. The bytes are a function of the options but for `converter`. Activations of the model
/// keep the size of a trained one's. Returns the bytes of the container. Throws InvalidInput,
/// ResourceExhausted if the drive has too little room, IoError, Cancelled.
std::uint64_t write_synthetic_model(const std::filesystem::path& folder,
                                    const SyntheticOptions& options,
                                    ThreadPool& pool,
                                    const std::stop_token& stop);

}  // namespace ft::models
