// What a model folder holds: its metadata texts and its tensors by name, mapped. A folder of
// Hugging Face's or a container of ours. No computation, no model knowledge.
#pragma once

#include "checkpoint/container_format.h"
#include "io/file.h"
#include "json/json.h"
#include "tensor/dtype.h"
#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::checkpoint {

/// Where one tensor lives. Shape as in the file, [out, in] for matrices.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::size_t shard = 0;           // index into Checkpoint::shards()
  std::uint64_t offset_bytes = 0;  // from the start of the shard file
  std::uint64_t size_bytes = 0;

  std::uint64_t n_elements() const noexcept;
};

/// A tensor whose element type is none of DType's. It may lie in a shard; it may not be required as
/// it is. Its shape is not known here: `size_bytes` is what the file gives it.
struct ForeignTensor {
  std::string name;
  std::string dtype;  // as the header spells it, e.g. "I64"
  std::size_t shard = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// A matrix of a container that is stored in panels: codes, then scales.
struct PanelTensor {
  std::string name;
  QuantFormat format = QuantFormat::kQ8;
  DType scale_dtype = DType::kBF16;
  std::uint64_t n_rows = 0;
  std::uint64_t n_cols = 0;
  std::size_t shard = 0;
  std::uint64_t offset_bytes = 0;  // from the start of the file
  std::uint64_t size_bytes = 0;
};

/// The matrix of `tensor` whose bytes lie at `bytes`.
QuantMatrix panels_at(const PanelTensor& tensor, const std::byte* bytes) noexcept;

/// One tensor a model requires. Used by the census.
struct TensorRequirement {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<DType> dtypes;  // allowed
};

struct Shard {
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;
};

/// An opened model folder. Either a Hugging Face folder: config.json, optional
/// generation_config.json, safetensors shards with or without model.safetensors.index.json. Or a
/// container: the same small files, and tensors where its index says; its data files are the
/// shards, and some matrices are stored in panels. Opening reads headers only; map() maps the
/// shards. Immutable after map().
class Checkpoint {
 public:
  /// Reads all headers. `path` is a folder, one .safetensors file whose folder holds config.json,
  /// or the index file of a container. With an index the shards are those it names, without one all
  /// *.safetensors files of the folder. Throws InvalidInput with one line naming the shard and the
  /// tensor for: a missing or short shard, a header that is truncated, oversized or no JSON,
  /// overlapping, wrapped or out-of-range offsets, a shape that does not match its byte count, a
  /// duplicate tensor (within a shard or between shards), an index that names a tensor its shard
  /// lacks. Tensors of a dtype that is not read (DType) are kept aside: only the census refuses
  /// them, if they are required.
  static Checkpoint open(const std::filesystem::path& path);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  const json::Value& config() const noexcept { return config_; }  // config.json
  const json::Value& generation_config() const noexcept {
    return generation_config_;
  }  // null if absent
  const std::vector<Shard>& shards() const noexcept { return shards_; }
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }  // sorted by name

  const std::vector<PanelTensor>& panel_tensors() const noexcept { return panels_; }  // by name

  /// nullptr if absent. O(log n).
  const TensorInfo* find(std::string_view name) const noexcept;
  const ForeignTensor* find_foreign(std::string_view name) const noexcept;
  const PanelTensor* find_panels(std::string_view name) const noexcept;

  /// The index of a container, or nullptr. Its expert layers are shards 1 … in order.
  const ContainerIndex* container() const noexcept { return index_ ? &*index_ : nullptr; }

  /// Of the bytes of a container's index: equal for copies of a container.
  std::uint64_t index_checksum() const noexcept { return index_checksum_; }

  /// Checks every requirement before anything is mapped. Throws one InvalidInput that lists what is
  /// missing (ranges of layers folded into "layers 5-9"), or else names the first tensor of wrong
  /// shape or dtype with found and expected.
  void census(const std::vector<TensorRequirement>& required) const;

  /// Maps all shards, once. Comes after the census.
  void map();
  /// The tensor's bytes; valid as long as this object. Requires map().
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;
  std::span<const std::byte> bytes(const ForeignTensor& tensor) const;
  QuantMatrix panels(const PanelTensor& tensor) const;

  /// Reads a part of a shard into memory; needs no map(). Thread-safe. Throws IoError.
  void read(std::size_t shard, std::uint64_t offset, std::span<std::byte> destination) const;
  /// What the container's converter writes of every shard: its size and a checksum over its header
  /// and a sample of each tensor. Needs no map().
  std::vector<SourceFile> identify_shards() const;

  /// Identity of the weights: 16 hex digits over names, dtypes, shapes and up to 512 bytes of every
  /// tensor, whatever the shards; of a container over its index, which has all checksums. Tells
  /// checkpoints apart; no defence against forgery or a flipped bit. One page read per tensor.
  /// Requires map().
  std::string fingerprint() const;

 private:
  void read_metadata();
  void read_container();
  void add_data_file(const std::string& name, std::uint64_t expected_bytes);
  void add_tensor(const TensorLayout& layout, std::string name, std::size_t file, std::uint64_t at);
  std::span<const std::byte> mapped(std::size_t shard, std::uint64_t at, std::uint64_t n) const;
  void read_shard(const std::filesystem::path& path);
  void sort_tensors();
  void check_place(const std::string& name,
                   const std::string& shard,
                   const std::string& index_name) const;

  std::filesystem::path folder_;
  json::Value config_;
  json::Value generation_config_;
  std::vector<Shard> shards_;
  std::vector<io::File> files_;
  std::vector<io::MappedFile> mappings_;
  std::vector<TensorInfo> tensors_;     // sorted by name
  std::vector<ForeignTensor> foreign_;  // sorted by name
  std::vector<PanelTensor> panels_;     // sorted by name
  std::optional<ContainerIndex> index_;
  std::uint64_t index_checksum_ = 0;
};

}  // namespace ft::checkpoint
