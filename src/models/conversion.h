// From a checkpoint to a container: which tensor goes where in which format, and the work. The
// family's declaration (weight_plan.h) says what there is; ContainerWriter keeps the folder sound.
#pragma once

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace ft::models {

/// What a part of the model is to be stored in. kStored ("fp8"): fp8 and what is not fp8 stay as
/// they are.
enum class TargetFormat { kQ4, kQ8, kBF16, kF16, kF32, kStored };

/// "q4", "q8", "bf16", "f16", "f32", "fp8".
std::string_view target_format_name(TargetFormat format) noexcept;
std::optional<TargetFormat> target_format_from_name(std::string_view name) noexcept;

/// Per part of the model. They rule what may be quantized (MatrixUse); the rest, and matrices of
/// integers, stay as stored.
struct ConversionFormats {
  TargetFormat dense = TargetFormat::kQ8;
  TargetFormat experts = TargetFormat::kQ4;
  TargetFormat mtp = TargetFormat::kQ8;
  TargetFormat head = TargetFormat::kQ8;
};

struct ConversionOptions {
  ConversionFormats formats;
  std::string converter;  // program and version
  /// Gets bytes of the container that are written, and in total. A resumed conversion starts above
  /// 0.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

struct ConversionResult {
  std::uint64_t total_bytes = 0;
  std::uint64_t resumed_bytes = 0;  // that were there already
  bool was_complete = false;        // there was nothing to do
};

/// Writes the container of `checkpoint` (of Hugging Face's layout; need not be mapped) into
/// `folder`; goes on where an earlier call was stopped, also by a kill, and ends with the same
/// bytes. The bytes do not depend on the threads. Memory: about 100 MiB, whatever the model's size.
/// Throws InvalidInput naming tensor and shard, ResourceExhausted if the drive has too little room,
/// IoError, Cancelled.
ConversionResult convert_model(const checkpoint::Checkpoint& checkpoint,
                               const std::filesystem::path& folder,
                               const ConversionOptions& options,
                               ThreadPool& pool,
                               const std::stop_token& stop);

}  // namespace ft::models
