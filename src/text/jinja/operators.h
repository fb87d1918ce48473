// Python's operators over template values. Wrong operand types, division by zero and results beyond
// 64 bits throw InvalidInput.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <cstdint>
#include <string_view>

namespace ft::text::jinja {

enum class Arithmetic : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
};

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

/// `left op right`. A number is trusted if both operands are; texts and lists keep the marks of
/// their parts.
Value arithmetic(Runtime& runtime, Arithmetic op, const Value& left, const Value& right);
Value negated(Runtime& runtime, const Value& value);
/// Unary plus.
Value affirmed(Runtime& runtime, const Value& value);

bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right);
bool equal(Runtime& runtime, const Value& left, const Value& right);
/// `left < right` of numbers, strings, or lists of them.
bool is_less(Runtime& runtime, const Value& left, const Value& right);
/// `item in container`.
bool contains(Runtime& runtime, const Value& container, const Value& item);
/// Python's `is`.
bool is_same(const Value& left, const Value& right);

/// Position of `needle` in `text` at or after `from`, or npos. Linear time, also for hostile texts.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);

}  // namespace ft::text::jinja
