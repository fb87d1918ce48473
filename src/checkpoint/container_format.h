// The index of a container: what the folder holds, where, and the checksum of every byte. A total
// parser and its inverse. The format in words, byte for byte: docs/formats.md.
//
// A container is a folder: "model.foretoken" (this index), copies of the model's small files,
// "dense.bin", and one file per layer with experts in which every expert is one extent.
#pragma once

#include "tensor/dtype.h"
#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::checkpoint {

inline constexpr std::string_view kIndexFileName = "model.foretoken";
/// Beside it while a container is being written; see ContainerWriter.
inline constexpr std::string_view kJournalFileName = "convert.journal";
inline constexpr std::string_view kDenseFileName = "dense.bin";
inline constexpr std::uint32_t kContainerVersion = 1;
/// Every tensor starts on a multiple of this and is followed by zero bytes up to the next one.
inline constexpr std::uint64_t kTensorAlignment = 64;
/// Every expert starts and ends on a multiple of this, so that one direct read gets it.
inline constexpr std::uint64_t kExtentAlignment = 4096;

/// A longer index is refused unread; GLM-5.2's has about 3 MB.
inline constexpr std::size_t kMaxContainerIndexBytes = std::size_t{160} << 20;

constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t alignment) noexcept {
  return (n + alignment - 1) / alignment * alignment;
}

/// One tensor. With `panels` its bytes are the codes and then the scales of a QuantMatrix, `dtype`
/// is the scales'; else its elements row by row.
struct TensorLayout {
  std::string name;  // of an expert's tensor: with "{}" for the number of the expert
  std::optional<QuantFormat> panels;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;    // from the start of its file, or of its extent
  std::uint64_t bytes = 0;     // without the zero bytes behind it
  std::uint64_t checksum = 0;  // of dense tensors, zero bytes behind included
};

/// Throws InvalidInput if `folder` holds a container that is not written to its end.
void refuse_unfinished(const std::filesystem::path& folder);

/// "q4", "q8", or the safetensors spelling of the element type.
std::string_view format_name(const TensorLayout& tensor) noexcept;

/// The experts of one layer, all alike: expert i is bytes [i * extent_bytes, (i + 1) *
/// extent_bytes) of the file.
struct ExpertLayer {
  std::uint64_t layer = 0;
  std::string file;
  std::uint64_t extent_bytes = 0;
  std::vector<TensorLayout> tensors;
  std::vector<std::uint64_t> checksums;  // one per expert

  std::uint64_t file_bytes() const noexcept { return checksums.size() * extent_bytes; }
};

/// A small file of the model, copied byte by byte.
struct MetadataFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// A file that the container was made from. `identity` is a checksum over its header and a sample
/// of every tensor.
struct SourceFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t identity = 0;
};

struct ContainerIndex {
  std::string family;
  std::string converter;                                     // program and version
  std::vector<std::pair<std::string, std::string>> formats;  // part of the model: format asked for
  std::vector<SourceFile> sources;
  std::vector<MetadataFile> metadata;
  std::vector<TensorLayout> dense;  // in the order of the file, without holes
  std::vector<ExpertLayer> experts;

  std::uint64_t dense_bytes() const noexcept;  // of the file
};

/// Gives offsets and sizes to the dense tensors and experts, in their order. Throws InvalidInput
/// naming a tensor whose size has no 64 bits.
void lay_out(ContainerIndex& index);

/// The bytes of the index file.
std::string write_container_index(const ContainerIndex& index);

/// Any bytes are a consistent index or InvalidInput with one line that starts with `where`.
/// Consistent: names are unique, file names are plain names, tensors lie as lay_out() places them.
ContainerIndex parse_container_index(std::string_view bytes, std::string_view where);

}  // namespace ft::checkpoint
