// Opens a container: the members of Checkpoint that know its index.
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ft::checkpoint {
namespace {

constexpr std::uint64_t kSampleBytes = 4096;

std::string expert_tensor_name(const std::string& pattern, std::uint64_t expert) {
  std::string name = pattern;
  name.replace(name.find("{}"), 2, std::to_string(expert));
  return name;
}

}  // namespace

void Checkpoint::add_data_file(const std::string& name, std::uint64_t expected_bytes) {
  io::File file = io::File::open(folder_ / name);
  if (file.size_bytes() != expected_bytes) {
    fail("checkpoint: {} has {} bytes, the container's index says {}; copy it again",
         in_quotes(file.path().native()),
         file.size_bytes(),
         expected_bytes);
  }
  shards_.push_back({.path = file.path(), .size_bytes = file.size_bytes()});
  files_.push_back(std::move(file));
}

void Checkpoint::add_tensor(const TensorLayout& layout,
                            std::string name,
                            std::size_t file,
                            std::uint64_t at) {
  if (layout.panels) {
    panels_.push_back({.name = std::move(name),
                       .format = *layout.panels,
                       .scale_dtype = layout.dtype,
                       .n_rows = layout.shape[0],
                       .n_cols = layout.shape[1],
                       .shard = file,
                       .offset_bytes = at,
                       .size_bytes = layout.bytes});
  } else {
    tensors_.push_back({.name = std::move(name),
                        .dtype = layout.dtype,
                        .shape = layout.shape,
                        .shard = file,
                        .offset_bytes = at,
                        .size_bytes = layout.bytes});
  }
}

void Checkpoint::read_container() {
  const std::filesystem::path path = folder_ / kIndexFileName;
  const std::string bytes = io::read_text(path, kMaxContainerIndexBytes);
  index_ = parse_container_index(bytes, in_quotes(path.native()));
  index_checksum_ = checksum_of(std::as_bytes(std::span(bytes)));
  for (const MetadataFile& file : index_->metadata) {
    const io::File found = io::File::open(folder_ / file.name);
    if (found.size_bytes() != file.bytes) {
      fail("checkpoint: {} has {} bytes, the container's index says {}; copy it again",
           in_quotes(found.path().native()),
           found.size_bytes(),
           file.bytes);
    }
    std::vector<std::byte> text(static_cast<std::size_t>(file.bytes));
    found.read_exactly(text, 0);
    if (checksum_of(text) != file.checksum) {
      fail("checkpoint: {} is not what the container's index says; copy it again",
           in_quotes(found.path().native()));
    }
  }
  read_metadata();
  const json::Value* type = config_.find("model_type");
  if (type == nullptr || !type->is_string() || type->as_string("model_type") != index_->family) {
    fail("checkpoint: {} is a container of family {}, its config.json says another",
         in_quotes(folder_.native()),
         in_quotes(index_->family));
  }
  add_data_file(std::string(kDenseFileName), index_->dense_bytes());
  for (const TensorLayout& tensor : index_->dense)
    add_tensor(tensor, tensor.name, 0, tensor.offset);
  for (const ExpertLayer& layer : index_->experts) {
    const std::size_t file = shards_.size();
    add_data_file(layer.file, layer.file_bytes());
    for (std::uint64_t e = 0; e < layer.checksums.size(); ++e) {
      for (const TensorLayout& tensor : layer.tensors) {
        add_tensor(tensor,
                   expert_tensor_name(tensor.name, e),
                   file,
                   e * layer.extent_bytes + tensor.offset);
      }
    }
  }
  sort_tensors();
}

QuantMatrix panels_at(const PanelTensor& tensor, const std::byte* bytes) noexcept {
  QuantMatrix matrix;
  matrix.format = tensor.format;
  matrix.scale_dtype = tensor.scale_dtype;
  matrix.n_rows = static_cast<std::size_t>(tensor.n_rows);
  matrix.n_cols = static_cast<std::size_t>(tensor.n_cols);
  matrix.codes = bytes;
  matrix.scales = bytes + matrix.code_bytes();
  return matrix;
}

QuantMatrix Checkpoint::panels(const PanelTensor& tensor) const {
  return panels_at(tensor, mapped(tensor.shard, tensor.offset_bytes, tensor.size_bytes).data());
}

std::vector<SourceFile> Checkpoint::identify_shards() const {
  std::vector<Checksum> sums(shards_.size());
  std::vector<std::byte> sample(kSampleBytes);
  const auto add = [&](std::string_view name,
                       std::string_view dtype,
                       std::size_t shard,
                       std::uint64_t offset,
                       std::uint64_t bytes) {
    sums[shard].update(fmt::format("{} {} {} {}\n", name, dtype, offset, bytes));
    const std::uint64_t n = std::min(bytes, kSampleBytes);
    const std::span<std::byte> middle(sample.data(), static_cast<std::size_t>(n));
    read(shard, offset + (bytes - n) / 2, middle);
    sums[shard].update(middle);
  };
  for (const TensorInfo& t : tensors_) {
    add(t.name, dtype_name(t.dtype), t.shard, t.offset_bytes, t.size_bytes);
  }
  for (const ForeignTensor& t : foreign_) {
    add(t.name, t.dtype, t.shard, t.offset_bytes, t.size_bytes);
  }
  std::vector<SourceFile> sources;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    sources.push_back({.name = shards_[i].path.filename().string(),
                       .bytes = shards_[i].size_bytes,
                       .identity = sums[i].value()});
  }
  return sources;
}

}  // namespace ft::checkpoint
