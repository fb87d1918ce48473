#include "checkpoint/integer_rows.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace ft::checkpoint {
namespace {

constexpr std::uint64_t kFp8Block = 128;
// What colibri's tools write.
constexpr std::array<std::uint64_t, 8> kGroups{16, 32, 48, 64, 96, 128, 192, 256};
// Stands for a layout that is known but not read, so that it can make another one ambiguous.
constexpr unsigned kFp8Bits = 0;

std::uint64_t blocks(std::uint64_t n, std::uint64_t block) {
  return n / block + (n % block != 0);
}

std::string scales_name(std::string_view name) {
  return std::string(name) + ".qs";
}

std::string text_of(const IntegerLayout& layout) {
  if (layout.bits == kFp8Bits) return "fp8 in blocks of 128 x 128";
  return layout.group == 0 ? fmt::format("{} bits, one scale per row", layout.bits)
                           : fmt::format("{} bits in groups of {}", layout.bits, layout.group);
}

std::string text_of(const std::vector<IntegerLayout>& layouts) {
  std::vector<std::string> texts;
  texts.reserve(layouts.size());
  for (const IntegerLayout& layout : layouts) texts.push_back(text_of(layout));
  return fmt::format("{}", fmt::join(texts, ", or "));
}

}  // namespace

int IntegerRows::code(std::size_t r, std::size_t c) const noexcept {
  const std::byte* row = codes + r * row_bytes();
  if (bits == 8) return static_cast<std::int8_t>(row[c]);
  const unsigned byte = std::to_integer<unsigned>(row[c / 2]);
  return static_cast<int>(c % 2 == 0 ? byte & 15U : byte >> 4U) - 8;
}

float IntegerRows::scale(std::size_t r, std::size_t c) const noexcept {
  const std::size_t per_row = blocks(n_cols, group_cols);
  return load_element(DType::kF32, scales + (r * per_row + c / group_cols) * sizeof(float));
}

float IntegerRows::at(std::size_t r, std::size_t c) const noexcept {
  return static_cast<float>(code(r, c)) * scale(r, c);
}

IntegerRows IntegerRows::rows(std::size_t begin, std::size_t n) const noexcept {
  IntegerRows part = *this;
  part.n_rows = n;
  part.codes += begin * row_bytes();
  part.scales += begin * blocks(n_cols, group_cols) * sizeof(float);
  return part;
}

bool is_integer_matrix(const Checkpoint& checkpoint, std::string_view name) {
  const ForeignTensor* codes = checkpoint.find_foreign(name);
  if (codes == nullptr || codes->dtype != "U8") return false;
  const TensorInfo* scales = checkpoint.find(scales_name(name));
  return scales != nullptr && scales->dtype == DType::kF32;
}

std::vector<IntegerLayout> fitting_layouts(std::uint64_t code_bytes,
                                           std::uint64_t n_scales,
                                           std::uint64_t n_rows,
                                           std::uint64_t n_cols) {
  std::vector<IntegerLayout> fitting;
  // Divisions, so that nothing can wrap.
  const auto is_product = [](std::uint64_t product, std::uint64_t a, std::uint64_t b) {
    return a != 0 && product % a == 0 && product / a == b;
  };
  if (is_product(code_bytes, n_rows, n_cols)) {
    if (n_scales == n_rows) fitting.push_back({8, 0});
    if (is_product(n_scales, blocks(n_rows, kFp8Block), blocks(n_cols, kFp8Block))) {
      fitting.push_back({kFp8Bits, 0});
    }
  }
  if (is_product(code_bytes, n_rows, blocks(n_cols, 2))) {
    if (n_scales == n_rows) fitting.push_back({4, 0});
    for (const std::uint64_t group : kGroups) {
      if (group < n_cols && is_product(n_scales, n_rows, blocks(n_cols, group))) {
        fitting.push_back({4, group});
      }
    }
  }
  return fitting;
}

void IntegerLayouts::add(const Checkpoint& checkpoint,
                         std::string name,
                         std::uint64_t n_rows,
                         std::uint64_t n_cols) {
  const ForeignTensor* codes = checkpoint.find_foreign(name);
  const TensorInfo* scales = checkpoint.find(scales_name(name));
  FT_CHECK(codes != nullptr && scales != nullptr);
  Matrix matrix{.n_rows = n_rows,
                .n_cols = n_cols,
                .code_bytes = codes->size_bytes,
                .n_scales = scales->n_elements(),
                .shard = checkpoint.shards()[codes->shard].path.filename().string(),
                .fitting = {}};
  matrix.fitting = fitting_layouts(matrix.code_bytes, matrix.n_scales, n_rows, n_cols);
  matrices_.emplace(std::move(name), std::move(matrix));
}

void IntegerLayouts::decide() {
  std::set<IntegerLayout> certain;
  for (const auto& [name, matrix] : matrices_) {
    if (matrix.fitting.empty()) {
      fail(
          "checkpoint: tensor {} [{}, {}] has {} bytes and {} scales, which is no layout that is "
          "read: 8 bits by rows, or 4 bits by rows or groups of 64 (shard {})",
          in_quotes(name),
          matrix.n_rows,
          matrix.n_cols,
          matrix.code_bytes,
          matrix.n_scales,
          in_quotes(matrix.shard));
    }
    if (matrix.fitting.size() == 1) certain.insert(matrix.fitting.front());
  }
  for (auto& [name, matrix] : matrices_) {
    if (matrix.fitting.size() > 1) {
      std::vector<IntegerLayout> agreeing;
      for (const IntegerLayout& layout : matrix.fitting) {
        if (certain.contains(layout)) agreeing.push_back(layout);
      }
      if (agreeing.size() != 1) {
        fail(
            "checkpoint: tensor {} [{}, {}] is ambiguous: {} bytes and {} scales can be {}, and no "
            "other tensor tells which (shard {})",
            in_quotes(name),
            matrix.n_rows,
            matrix.n_cols,
            matrix.code_bytes,
            matrix.n_scales,
            text_of(matrix.fitting),
            in_quotes(matrix.shard));
      }
      matrix.fitting = agreeing;
    }
    const IntegerLayout& layout = matrix.fitting.front();
    if (layout.bits == kFp8Bits || layout.group % kQuantGroup != 0) {
      fail(
          "checkpoint: tensor {} is stored with {}, which is not read; convert the original "
          "checkpoint instead (shard {})",
          in_quotes(name),
          text_of(layout),
          in_quotes(matrix.shard));
    }
  }
}

const IntegerLayout& IntegerLayouts::layout(std::string_view name) const {
  const auto at = matrices_.find(name);
  FT_CHECK(at != matrices_.end() && at->second.fitting.size() == 1);
  return at->second.fitting.front();
}

IntegerRows IntegerLayouts::rows(const Checkpoint& checkpoint, std::string_view name) const {
  const IntegerLayout& how = layout(name);
  const Matrix& matrix = matrices_.find(name)->second;
  const auto n_cols = static_cast<std::size_t>(matrix.n_cols);
  return {.bits = how.bits,
          .n_rows = static_cast<std::size_t>(matrix.n_rows),
          .n_cols = n_cols,
          .group_cols = how.group == 0 ? n_cols : static_cast<std::size_t>(how.group),
          .codes = checkpoint.bytes(*checkpoint.find_foreign(name)).data(),
          .scales = checkpoint.bytes(*checkpoint.find(scales_name(name))).data()};
}

void IntegerLayouts::merge(IntegerLayouts&& other) {
  matrices_.merge(other.matrices_);
}

void repack_panel(const IntegerRows& from,
                  std::size_t first_row,
                  std::size_t n,
                  std::byte* codes,
                  std::byte* scales) noexcept {
  const QuantFormat format = from.bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4;
  for (std::size_t begin = 0; begin < from.n_cols; begin += kQuantGroup) {
    std::int8_t block[kPanelRows][kQuantGroup] = {};
    float block_scales[kPanelRows] = {};
    const std::size_t n_cols = std::min(kQuantGroup, from.n_cols - begin);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n_cols; ++c) {
        block[r][c] = static_cast<std::int8_t>(from.code(first_row + r, begin + c));
      }
      block_scales[r] = from.scale(first_row + r, begin);
    }
    store_block(format, block, codes);
    std::memcpy(scales, block_scales, sizeof block_scales);
    codes += block_code_bytes(format);
    scales += sizeof block_scales;
  }
}

}  // namespace ft::checkpoint
