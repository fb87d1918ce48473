// Element types of stored tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ft {

enum class DType : std::uint8_t { kF32, kBF16, kF16, kF8E4M3 };

/// Bytes of one element.
std::size_t element_bytes(DType dtype) noexcept;
/// The safetensors spelling: "F32", "BF16", "F16", "F8_E4M3".
std::string_view dtype_name(DType dtype) noexcept;
/// Inverse of dtype_name; nullopt for anything else.
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

}  // namespace ft
