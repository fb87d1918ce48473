// The safetensors header: 8 bytes little-endian header length, JSON, then the data section. A total
// parser: any byte string yields either a consistent tensor list or InvalidInput. Format:
// huggingface/safetensors README, format section.
#pragma once

#include "checkpoint/checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ft::checkpoint {

/// Header texts above this are refused (100 MB, as the reference implementation).
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Length of the JSON header. `first_bytes` holds the first 8 bytes. Throws InvalidInput naming
/// `shard_name` if the file is too short for its own header or the header too long.
std::uint64_t header_bytes(std::span<const std::byte> first_bytes,
                           std::uint64_t file_bytes,
                           std::string_view shard_name);

/// What one header lists, in its order. `shard` is left 0.
struct Header {
  std::vector<TensorInfo> tensors;
  std::vector<ForeignTensor> foreign;
};

/// Tensors of one header (its JSON text) with offsets from the file's start. Checks everything that
/// can be wrong, see Checkpoint::open; the data section must be covered without holes and without a
/// rest, as the format demands.
/// `__metadata__` is skipped.
Header parse_header(std::string_view header_json,
                    std::uint64_t file_bytes,
                    std::string_view shard_name);

}  // namespace ft::checkpoint
