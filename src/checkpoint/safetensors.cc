#include "checkpoint/safetensors.h"

#include "base/error.h"
#include "json/json.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace ft::checkpoint {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// The format sets no limit; weights have one or two dimensions, fused experts three.
constexpr std::size_t kMaxDimensions = 8;
// {"name": {"shape": [1]}} has three levels; __metadata__ is flat.
constexpr std::size_t kMaxJsonDepth = 8;

/// Bytes [begin, end) of the data section, and whose they are.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string_view name;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Reads the fields of one tensor. All errors start with `where_`: shard and tensor.
class EntryReader {
 public:
  EntryReader(std::string_view shard_name, const std::string& name, const json::Value& entry)
      : where_(fmt::format("{}: tensor {}", shard_name, in_quotes(name))), entry_(entry) {
    entry.as_object(where_);
  }

  const std::string& dtype() const { return field("dtype").as_string(where_ + ": dtype"); }

  Extent extent() const {
    const json::Array& offsets = field("data_offsets").as_array(where_ + ": data_offsets");
    if (offsets.size() != 2) {
      fail("{}: data_offsets has {} values, expected begin and end", where_, offsets.size());
    }
    const Extent extent{.begin = count(offsets[0], "data_offsets"),
                        .end = count(offsets[1], "data_offsets"),
                        .name = {}};
    if (extent.end < extent.begin) {
      fail("{}: data_offsets [{}, {}] end before they begin", where_, extent.begin, extent.end);
    }
    return extent;
  }

  std::vector<std::uint64_t> shape() const {
    const json::Array& dimensions = field("shape").as_array(where_ + ": shape");
    if (dimensions.size() > kMaxDimensions) {
      fail("{}: shape has {} dimensions, at most {} are read",
           where_,
           dimensions.size(),
           kMaxDimensions);
    }
    std::vector<std::uint64_t> shape;
    for (const json::Value& dimension : dimensions) {
      shape.push_back(count(dimension, "shape"));
    }
    return shape;
  }

  /// Throws unless the shape takes exactly the bytes of the extent.
  void check_size(const std::vector<std::uint64_t>& shape,
                  DType dtype,
                  const Extent& extent) const {
    std::uint64_t bytes = element_bytes(dtype);
    for (const std::uint64_t dimension : shape) {
      if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
        fail("{}: shape {} has more than 2^64 bytes", where_, shape_text(shape));
      }
    }
    if (bytes != extent.end - extent.begin) {
      fail("{}: shape {} of {} takes {} bytes, but data_offsets [{}, {}] hold {}",
           where_,
           shape_text(shape),
           dtype_name(dtype),
           bytes,
           extent.begin,
           extent.end,
           extent.end - extent.begin);
    }
  }

 private:
  const json::Value& field(std::string_view key) const {
    const json::Value* value = entry_.find(key);
    if (value == nullptr) {
      fail("{} has no {}", where_, key);
    }
    return *value;
  }

  std::uint64_t count(const json::Value& value, std::string_view key) const {
    const std::int64_t number = value.as_integer(fmt::format("{}: {}", where_, key));
    if (number < 0) {
      fail("{}: {} holds {}, expected a value >= 0", where_, key, number);
    }
    return static_cast<std::uint64_t>(number);
  }

  std::string where_;
  const json::Value& entry_;
};

/// Throws unless the extents cover the file from data_begin to its end exactly. Sorts them.
void check_cover(std::vector<Extent>& extents,
                 std::uint64_t data_begin,
                 std::uint64_t file_bytes,
                 std::string_view shard_name) {
  const std::uint64_t data_bytes = file_bytes - data_begin;
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  std::string_view previous;
  for (const Extent& extent : extents) {
    if (extent.begin < covered) {
      fail(
          "{}: tensors {} and {} overlap", shard_name, in_quotes(previous), in_quotes(extent.name));
    }
    if (extent.begin > covered) {
      fail("{}: {} bytes before tensor {} belong to no tensor",
           shard_name,
           extent.begin - covered,
           in_quotes(extent.name));
    }
    covered = extent.end;
    previous = extent.name;
    if (covered > data_bytes) {
      fail("{}: incomplete shard: {} bytes, but tensor {} ends at byte {}; download it again",
           shard_name,
           file_bytes,
           in_quotes(extent.name),
           data_begin + covered);  // both are below 2^63
    }
  }
  if (covered < data_bytes) {
    fail("{}: the last {} bytes of the file belong to no tensor", shard_name, data_bytes - covered);
  }
}

}  // namespace

std::uint64_t TensorInfo::n_elements() const noexcept {
  return size_bytes / element_bytes(dtype);
}

std::uint64_t header_bytes(std::span<const std::byte> first_bytes,
                           std::uint64_t file_bytes,
                           std::string_view shard_name) {
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes) {
    fail("{}: {} bytes are too few for a safetensors file", shard_name, file_bytes);
  }
  if (std::memcmp(first_bytes.data(), "version ", kLengthBytes) == 0) {
    fail("{}: a Git LFS pointer, not the weights; fetch them with: git lfs pull", shard_name);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(first_bytes[i]) << (8 * i);
  }
  if (length > file_bytes - kLengthBytes) {
    fail("{}: header of {} bytes in a file of {}: truncated, or no safetensors file",
         shard_name,
         length,
         file_bytes);
  }
  if (length > kMaxHeaderBytes) {
    fail("{}: header of {} bytes, at most {} are read", shard_name, length, kMaxHeaderBytes);
  }
  return length;
}

Header parse_header(std::string_view header_json,
                    std::uint64_t file_bytes,
                    std::string_view shard_name) {
  const std::string where = fmt::format("{}: header", shard_name);
  const json::Value root =
      json::parse(header_json, where, {.max_bytes = kMaxHeaderBytes, .max_depth = kMaxJsonDepth});
  const std::uint64_t data_begin = kLengthBytes + header_json.size();
  if (file_bytes < data_begin) {
    fail("{}: header of {} bytes in a file of {}", shard_name, header_json.size(), file_bytes);
  }
  Header header;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : root.as_object(where)) {
    if (name == "__metadata__") {
      entry.as_object(fmt::format("{}: __metadata__", shard_name));
      continue;
    }
    const EntryReader reader(shard_name, name, entry);
    Extent extent = reader.extent();
    std::vector<std::uint64_t> shape = reader.shape();
    const std::optional<DType> dtype = dtype_from_name(reader.dtype());
    if (dtype) {
      reader.check_size(shape, *dtype, extent);
      header.tensors.push_back({.name = name,
                                .dtype = *dtype,
                                .shape = std::move(shape),
                                .offset_bytes = extent.begin,  // moved below, once it is in range
                                .size_bytes = extent.end - extent.begin});
    } else {
      header.foreign.push_back({.name = name,
                                .dtype = reader.dtype(),
                                .offset_bytes = extent.begin,
                                .size_bytes = extent.end - extent.begin});
    }
    extent.name = name;
    extents.push_back(extent);
  }
  check_cover(extents, data_begin, file_bytes, shard_name);
  for (TensorInfo& tensor : header.tensors) {
    tensor.offset_bytes += data_begin;
  }
  for (ForeignTensor& tensor : header.foreign) {
    tensor.offset_bytes += data_begin;
  }
  return header;
}

}  // namespace ft::checkpoint
