// Any bytes are either a consistent tensor list or InvalidInput. Seeds: whole small shards and bare
// header texts.
#include "base/error.h"
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace {

/// What the rest of the program relies on.
void check(const ft::checkpoint::Header& header, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const ft::checkpoint::TensorInfo& tensor : header.tensors) {
    FT_CHECK(tensor.offset_bytes <= file_bytes);
    FT_CHECK(tensor.size_bytes <= file_bytes - tensor.offset_bytes);
    std::uint64_t n_elements = 1;
    for (const std::uint64_t dimension : tensor.shape) {
      FT_CHECK(!__builtin_mul_overflow(n_elements, dimension, &n_elements));
    }
    FT_CHECK(n_elements == tensor.n_elements());
    FT_CHECK(n_elements * ft::element_bytes(tensor.dtype) == tensor.size_bytes);
    extents.emplace_back(tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes);
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i) {
    FT_CHECK(extents[i - 1].second <= extents[i].first);
  }
}

void parse(std::string_view header_json, std::uint64_t file_bytes) {
  try {
    check(ft::checkpoint::parse_header(header_json, file_bytes, "fuzz"), file_bytes);
  } catch (const ft::InvalidInput&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // As a file: length, header, data.
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const std::uint64_t length =
        ft::checkpoint::header_bytes(bytes.first(std::min<std::size_t>(size, 8)), size, "fuzz");
    parse(text.substr(8, length), size);
  } catch (const ft::InvalidInput&) {
  }
  // As a header alone, so that a mutation need not keep the length right; the data section has 64
  // bytes.
  parse(text, 8 + size + 64);
  return 0;
}
