// Filters over numbers, defaults, and JSON.
#include "text/jinja/access.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/number_text.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

using Input = const Value&;
using Args = const Arguments&;

// 10 to a greater power is no double.
constexpr std::int64_t kMaxPrecision = 300;

Value absolute(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'abs'", arguments, {});
  if (input.is(Kind::kReal)) return Value::real(std::fabs(input.as_real()), input.is_trusted());
  if (!input.is_integral()) runtime.fail_type("filter 'abs'", input);
  return input.as_integer() < 0 ? negated(runtime, input) : affirmed(runtime, input);
}

/// int() of a real number; nullopt for nan.
std::optional<std::int64_t> truncated(Runtime& runtime, double value) {
  if (std::isnan(value)) return std::nullopt;
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (!(value > -limit && value < limit)) runtime.fail("an integer does not fit 64 bits");
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> to_integer(Runtime& runtime, Input input, std::int64_t base) {
  switch (input.kind()) {
    case Kind::kBool:
    case Kind::kInteger:
      return input.as_integer();
    case Kind::kReal:
      return truncated(runtime, input.as_real());
    case Kind::kString: {
      if (const auto integer = parse_integer(runtime, input.bytes(), base)) return integer;
      const auto real = parse_real(runtime, input.bytes());
      return real ? truncated(runtime, *real) : std::nullopt;
    }
    case Kind::kUndefined:
      runtime.fail_type("filter 'int'", input);
    default:
      return std::nullopt;
  }
}

bool is_trusted_number(Input input) {
  return input.is_string() ? input.text().is_all_trusted() : input.is_trusted();
}

Value as_integer(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'int'", arguments, {"default", "base"});
  const auto integer = to_integer(runtime, input, bound.integer(1, 10));
  if (integer) return Value::integer(*integer, is_trusted_number(input));
  return bound.has(0) ? bound[0] : Value::integer(0);
}

Value as_real(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'float'", arguments, {"default"});
  std::optional<double> real;
  if (input.is(Kind::kUndefined)) runtime.fail_type("filter 'float'", input);
  if (input.is_number()) real = input.as_real();
  if (input.is_string()) real = parse_real(runtime, input.bytes());
  if (real) return Value::real(*real, is_trusted_number(input));
  return bound.has(0) ? bound[0] : Value::real(0);
}

/// Half to even, to a multiple of 10^n.
std::int64_t rounded_integer(Runtime& runtime, std::int64_t value, std::int64_t n) {
  if (n > 18) return 0;
  std::int64_t unit = 1;
  for (; n > 0; --n) unit *= 10;
  const std::int64_t rest = ((value % unit) + unit) % unit;
  std::int64_t floor = 0;
  if (__builtin_sub_overflow(value, rest, &floor)) runtime.fail("an integer does not fit 64 bits");
  const std::int64_t half = unit / 2;
  const bool is_up = rest > half || (rest == half && unit > 1 && (floor / unit) % 2 != 0);
  std::int64_t out = floor;
  if (is_up && __builtin_add_overflow(floor, unit, &out)) {
    runtime.fail("an integer does not fit 64 bits");
  }
  return out;
}

Value round_common(Runtime& runtime, Input input, std::int64_t precision) {
  if (input.is_integral()) {
    const std::int64_t value = input.as_integer();
    return Value::integer(precision >= 0 ? value : rounded_integer(runtime, value, -precision),
                          input.is_trusted());
  }
  return Value::real(round_decimal(input.as_real(), static_cast<int>(precision)),
                     input.is_trusted());
}

Value round_number(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'round'", arguments, {"precision", "method"});
  if (!input.is_number()) runtime.fail_type("filter 'round'", input);
  const std::int64_t precision = std::clamp(bound.integer(0, 0), -kMaxPrecision, kMaxPrecision);
  const std::string method = bound.has(1) ? bound.text(1).bytes() : "common";
  if (method == "common") return round_common(runtime, input, precision);
  if (method != "ceil" && method != "floor") {
    runtime.fail("filter 'round': the method must be 'common', 'ceil' or 'floor'");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_real() * scale;
  if (!std::isfinite(scaled)) runtime.fail("filter 'round': the number is too large");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale,
                     input.is_trusted());
}

Value default_value(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'default'", arguments, {"default_value", "boolean"});
  const bool is_replaced = input.is(Kind::kUndefined) || (bound.truth(1, false) && !is_true(input));
  if (!is_replaced) return input;
  return bound.has(0) ? bound[0] : runtime.string("");
}

Value attribute_of(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'attr'", arguments, {"name"}, 1);
  return own_attribute(runtime, input, bound.text(0).bytes());
}

void read_separators(Runtime& runtime, const Value& value, JsonStyle& style) {
  const std::vector<Value> parts = elements(runtime, value);
  if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
    runtime.fail("filter 'tojson': separators must be two strings");
  }
  style.item_separator = parts[0].text();
  style.key_separator = parts[1].text();
}

Value as_json(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(
      runtime, "filter 'tojson'", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.escapes_ascii = bound.truth(0, false);
  style.sorts_keys = bound.truth(3, false);
  if (bound.has_value(1)) {
    style.item_separator = MarkedText(",", true);
    if (bound[1].is_string()) {
      style.indent = bound[1].text();
    } else {
      const auto width = static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(1, 0), 0));
      runtime.reserve_text(width);
      style.indent = MarkedText(std::string(width, ' '), true);
    }
  }
  if (bound.has_value(2)) read_separators(runtime, bound[2], style);
  return runtime.string(to_json(runtime, input, style));
}

constexpr auto kFilters = std::to_array<Filter>({
    {"abs", absolute},
    {"attr", attribute_of},
    {"d", default_value},
    {"default", default_value},
    {"float", as_real},
    {"int", as_integer},
    {"round", round_number},
    {"tojson", as_json},
});
static_assert(is_sorted_by_name(kFilters));

}  // namespace

const Filter* find_number_filter(std::string_view name) {
  return find_by_name(kFilters, name);
}

}  // namespace ft::text::jinja
