// What a model folder holds: its metadata texts and its tensors by name, mapped. No computation, no
// model knowledge.
#pragma once

#include "io/file.h"
#include "json/json.h"
#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

/// A tensor whose element type this program does not read. It may lie in a shard; it may not be
/// required.
struct ForeignTensor {
  std::string name;
  std::string dtype;  // as the header spells it, e.g. "I64"
  std::size_t shard = 0;
};

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

/// An opened Hugging Face folder: config.json, optional generation_config.json, safetensors shards
/// with or without model.safetensors.index.json. Opening reads headers only; map() maps the shards.
/// Immutable after map().
class Checkpoint {
 public:
  /// Reads all headers. `path` is a folder, or one .safetensors file whose folder holds
  /// config.json. With an index the shards are those it names, without one all *.safetensors files
  /// of the folder. Throws InvalidInput with one line naming the shard and the tensor for: a
  /// missing or short shard, a header that is truncated, oversized or no JSON, overlapping, wrapped
  /// or out-of-range offsets, a shape that does not match its byte count, a duplicate tensor
  /// (within a shard or between shards), an index that names a tensor its shard lacks. Tensors of a
  /// dtype that is not read (DType) are kept aside: only the census refuses them, if they are
  /// required.
  static Checkpoint open(const std::filesystem::path& path);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  const json::Value& config() const noexcept { return config_; }  // config.json
  const json::Value& generation_config() const noexcept {
    return generation_config_;
  }  // null if absent
  const std::vector<Shard>& shards() const noexcept { return shards_; }
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }  // sorted by name

  /// nullptr if absent. O(log n).
  const TensorInfo* find(std::string_view name) const noexcept;

  /// Checks every requirement before anything is mapped. Throws one InvalidInput that lists what is
  /// missing (ranges of layers folded into "layers 5-9"), or else names the first tensor of wrong
  /// shape or dtype with found and expected.
  void census(const std::vector<TensorRequirement>& required) const;

  /// Maps all shards. Called once, after the census.
  void map();
  /// The tensor's bytes; valid as long as this object. Requires map().
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;

  /// Identity of the weights: 16 hex digits over names, dtypes, shapes and up to 512 bytes of every
  /// tensor, whatever the shards. Tells checkpoints apart; no defence against forgery or a flipped
  /// bit. One page read per tensor. Requires map().
  std::string fingerprint() const;

 private:
  const ForeignTensor* find_foreign(std::string_view name) const noexcept;
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
};

}  // namespace ft::checkpoint
