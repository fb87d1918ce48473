#include "tensor/dtype.h"

#include <algorithm>
#include <array>

namespace ft {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
};
constexpr std::array kDTypes = {DTypeRow{DType::kF32, "F32"},
                                DTypeRow{DType::kBF16, "BF16"},
                                DTypeRow{DType::kF16, "F16"},
                                DTypeRow{DType::kF8E4M3, "F8_E4M3"}};

}  // namespace

std::size_t element_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF8E4M3:
      return 1;
  }
  return 0;  // not reached: the switch is complete
}

std::string_view dtype_name(DType dtype) noexcept {
  const auto* row = std::find_if(
      kDTypes.begin(), kDTypes.end(), [dtype](const DTypeRow& r) { return r.dtype == dtype; });
  return row == kDTypes.end() ? std::string_view() : row->name;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  const auto* row = std::find_if(
      kDTypes.begin(), kDTypes.end(), [name](const DTypeRow& r) { return r.name == name; });
  return row == kDTypes.end() ? std::nullopt : std::optional(row->dtype);
}

}  // namespace ft
