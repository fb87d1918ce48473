// Any bytes are either a consistent container index or InvalidInput. Seeds: whole index files and
// bare JSON texts.
#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/container_format.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace {

/// What the reader relies on.
void check_tensors(const std::vector<ft::checkpoint::TensorLayout>& tensors, std::uint64_t end) {
  std::uint64_t at = 0;
  for (const ft::checkpoint::TensorLayout& tensor : tensors) {
    FT_CHECK(tensor.offset % ft::checkpoint::kTensorAlignment == 0 && tensor.offset >= at);
    FT_CHECK(tensor.offset <= end && tensor.bytes <= end - tensor.offset);
    FT_CHECK(!tensor.panels || tensor.shape.size() == 2);
    at = tensor.offset + tensor.bytes;
  }
}

void parse(std::string_view bytes) {
  try {
    const ft::checkpoint::ContainerIndex index =
        ft::checkpoint::parse_container_index(bytes, "fuzz");
    check_tensors(index.dense, index.dense_bytes());
    for (const ft::checkpoint::ExpertLayer& layer : index.experts) {
      FT_CHECK(layer.extent_bytes % ft::checkpoint::kExtentAlignment == 0);
      std::uint64_t total = 0;
      FT_CHECK(!__builtin_mul_overflow(layer.checksums.size(), layer.extent_bytes, &total));
      check_tensors(layer.tensors, layer.extent_bytes);
    }
    const std::string again = ft::checkpoint::write_container_index(index);
    FT_CHECK(ft::checkpoint::write_container_index(
                 ft::checkpoint::parse_container_index(again, "fuzz")) == again);
  } catch (const ft::InvalidInput&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(text);
  // As a JSON text under a sound header, so that a mutation need not find the checksum.
  std::string file = ft::checkpoint::write_container_index({}).substr(0, 64);
  const std::uint64_t checksum = ft::checkpoint::checksum_of(std::as_bytes(std::span(text)));
  const std::uint64_t length = size;
  std::memcpy(file.data() + 16, &length, sizeof length);
  std::memcpy(file.data() + 24, &checksum, sizeof checksum);
  parse(file.append(text));
  return 0;
}
