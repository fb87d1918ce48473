// The comparisons of operators.h.
#include "text/jinja/access.h"
#include "text/jinja/dict.h"
#include "text/jinja/operators.h"

#include <cstring>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  return a.as_real() == b.as_real();
}

bool equal_items(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  runtime.spend(a.size() + 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  runtime.spend(a.entries.size() + 1);
  for (const DictObject::Entry& entry : a.entries) {
    const Value* other = find(runtime, b, entry.key);
    if (other == nullptr || !equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

[[noreturn]] void fail_order(const Runtime& runtime, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is(Kind::kUndefined)) runtime.fail_type("comparison", *value);
  }
  runtime.fail(
      fmt::format("{} and {} have no order", kind_name(left.kind()), kind_name(right.kind())));
}

/// left < right, or with or_equal left <= right.
bool precedes(Runtime& runtime, const Value& left, const Value& right, bool or_equal) {
  runtime.spend(1);
  if (left.is_integral() && right.is_integral()) {
    return or_equal ? left.as_integer() <= right.as_integer()
                    : left.as_integer() < right.as_integer();
  }
  if (left.is_number() && right.is_number()) {
    return or_equal ? left.as_real() <= right.as_real() : left.as_real() < right.as_real();
  }
  if (left.is_string() && right.is_string()) {
    runtime.spend_bytes(std::min(left.bytes().size(), right.bytes().size()));
    // Bytes of UTF-8 have the order of code points.
    const int order = left.bytes().compare(right.bytes());
    return or_equal ? order <= 0 : order < 0;
  }
  const bool are_lists =
      left.kind() == right.kind() && left.is_sequence() && !left.is(Kind::kRange);
  if (!are_lists) fail_order(runtime, left, right);
  const std::vector<Value>& a = left.items();
  const std::vector<Value>& b = right.items();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!equal(runtime, a[i], b[i])) return precedes(runtime, a[i], b[i], or_equal);
  }
  return or_equal ? a.size() <= b.size() : a.size() < b.size();
}

}  // namespace

bool is_same(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInteger:
      return left.as_integer() == right.as_integer();
    case Kind::kReal:
      return left.as_real() == right.as_real();
    case Kind::kFunction:
      return &left.as_function() == &right.as_function();
    default:
      return left.object() == right.object();
  }
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.spend(1);
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kString:
      if (left.bytes().size() != right.bytes().size()) return false;
      runtime.spend_bytes(left.bytes().size());
      return left.bytes() == right.bytes();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return left.object() == right.object() || equal_items(runtime, left.items(), right.items());
    case Kind::kDict:
      return left.object() == right.object() ||
             equal_dicts(runtime, left.as_dict(), right.as_dict());
    case Kind::kUndefined:
      return true;
    default:
      return is_same(left, right);
  }
}

bool is_less(Runtime& runtime, const Value& left, const Value& right) {
  return precedes(runtime, left, right, false);
}

bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual:
      return equal(runtime, left, right);
    case Comparison::kNotEqual:
      return !equal(runtime, left, right);
    case Comparison::kLess:
      return precedes(runtime, left, right, false);
    case Comparison::kLessEqual:
      return precedes(runtime, left, right, true);
    case Comparison::kGreater:
      return precedes(runtime, right, left, false);
    case Comparison::kGreaterEqual:
      return precedes(runtime, right, left, true);
    case Comparison::kIn:
      return contains(runtime, right, left);
    case Comparison::kNotIn:
      return !contains(runtime, right, left);
  }
  return false;
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      runtime.fail(fmt::format("a string cannot contain {}", kind_name(item.kind())));
    }
    runtime.spend_bytes(container.bytes().size());
    return find_bytes(container.bytes(), item.bytes(), 0) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) return find(runtime, container.as_dict(), item) != nullptr;
  Cursor cursor(runtime, container);
  Value candidate;
  while (cursor.next(candidate)) {
    if (equal(runtime, candidate, item)) return true;
  }
  return false;
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is linear in the worst case (two-way algorithm); std::string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace ft::text::jinja
