// arithmetic(), negated(), affirmed() of operators.h.
#include "text/jinja/operators.h"
#include "text/jinja/printf_format.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

std::string_view symbol(Arithmetic op) {
  switch (op) {
    case Arithmetic::kAdd:
      return "+";
    case Arithmetic::kSubtract:
      return "-";
    case Arithmetic::kMultiply:
      return "*";
    case Arithmetic::kDivide:
      return "/";
    case Arithmetic::kFloorDivide:
      return "//";
    case Arithmetic::kRemainder:
      return "%";
    case Arithmetic::kPower:
      return "**";
  }
  return "?";
}

[[noreturn]] void fail_operands(const Runtime& runtime,
                                Arithmetic op,
                                const Value& left,
                                const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is(Kind::kUndefined)) {
      runtime.fail_type(fmt::format("operator {}", symbol(op)), *value);
    }
  }
  runtime.fail(fmt::format("operator {} does not take {} and {}",
                           symbol(op),
                           kind_name(left.kind()),
                           kind_name(right.kind())));
}

[[noreturn]] void fail_overflow(const Runtime& runtime) {
  runtime.fail("an integer does not fit 64 bits");
}

void refuse_zero(const Runtime& runtime, bool is_zero) {
  if (is_zero) runtime.fail("division by zero");
}

std::int64_t integer_power(const Runtime& runtime, std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (;;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      fail_overflow(runtime);
    }
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow(runtime);
  }
}

std::int64_t floor_divide(const Runtime& runtime, std::int64_t a, std::int64_t b) {
  refuse_zero(runtime, b == 0);
  if (b == -1) {
    if (a == std::numeric_limits<std::int64_t>::min()) fail_overflow(runtime);
    return -a;
  }
  const std::int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t floor_remainder(const Runtime& runtime, std::int64_t a, std::int64_t b) {
  refuse_zero(runtime, b == 0);
  if (b == -1) return 0;
  const std::int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double floor_remainder(const Runtime& runtime, double a, double b) {
  refuse_zero(runtime, b == 0);
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((remainder < 0) != (b < 0)) remainder += b;
  return remainder;
}

// As CPython computes it, so that a == (a // b) * b + a % b holds as well as it can.
double floor_divide(const Runtime& runtime, double a, double b) {
  const double quotient = (a - floor_remainder(runtime, a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double real_power(const Runtime& runtime, double base, double exponent) {
  refuse_zero(runtime, base == 0 && exponent < 0);
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      std::floor(exponent) != exponent) {
    runtime.fail("a fractional power of a negative number is not possible");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    runtime.fail("the result of ** is too large");
  }
  return result;
}

Value of_integers(const Runtime& runtime, Arithmetic op, const Value& left, const Value& right) {
  const std::int64_t a = left.as_integer();
  const std::int64_t b = right.as_integer();
  const bool is_trusted = left.is_trusted() && right.is_trusted();
  std::int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Arithmetic::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Arithmetic::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Arithmetic::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Arithmetic::kDivide:
      refuse_zero(runtime, b == 0);
      return Value::real(static_cast<double>(a) / static_cast<double>(b), is_trusted);
    case Arithmetic::kFloorDivide:
      result = floor_divide(runtime, a, b);
      break;
    case Arithmetic::kRemainder:
      result = floor_remainder(runtime, a, b);
      break;
    case Arithmetic::kPower:
      if (b < 0) {
        return Value::real(real_power(runtime, static_cast<double>(a), static_cast<double>(b)),
                           is_trusted);
      }
      result = integer_power(runtime, a, b);
      break;
  }
  if (overflows) fail_overflow(runtime);
  return Value::integer(result, is_trusted);
}

Value of_reals(const Runtime& runtime, Arithmetic op, const Value& left, const Value& right) {
  const double a = left.as_real();
  const double b = right.as_real();
  double result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      result = a + b;
      break;
    case Arithmetic::kSubtract:
      result = a - b;
      break;
    case Arithmetic::kMultiply:
      result = a * b;
      break;
    case Arithmetic::kDivide:
      refuse_zero(runtime, b == 0);
      result = a / b;
      break;
    case Arithmetic::kFloorDivide:
      result = floor_divide(runtime, a, b);
      break;
    case Arithmetic::kRemainder:
      result = floor_remainder(runtime, a, b);
      break;
    case Arithmetic::kPower:
      result = real_power(runtime, a, b);
      break;
  }
  return Value::real(result, left.is_trusted() && right.is_trusted());
}

Value joined(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_string()) {
    runtime.reserve_text(left.text().size() + right.text().size());
    MarkedText text = left.text();
    text.append(right.text());
    return runtime.string(std::move(text));
  }
  runtime.spend(left.items().size() + right.items().size());
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  const bool is_trusted = left.is_trusted() && right.is_trusted();
  return left.is(Kind::kList) ? runtime.list(std::move(items), is_trusted)
                              : runtime.tuple(std::move(items), is_trusted);
}

MarkedText repeated_text(const MarkedText& text, std::size_t n_times) {
  if (text.n_runs() == 1) {
    std::string bytes;
    bytes.reserve(n_times * text.size());
    for (std::size_t i = 0; i < n_times; ++i) bytes += text.bytes();
    return {std::move(bytes), text.is_trusted_at(0)};
  }
  MarkedText out;
  for (std::size_t i = 0; i < n_times; ++i) out.append(text);
  return out;
}

Value repeated(Runtime& runtime, const Value& value, std::int64_t n_wanted) {
  const std::size_t size = value.is_string() ? value.text().size() : value.items().size();
  std::size_t n_times = n_wanted > 0 ? static_cast<std::size_t>(n_wanted) : 0;
  std::size_t total = 0;
  if (__builtin_mul_overflow(n_times, size, &total))
    total = std::numeric_limits<std::size_t>::max();
  if (size == 0) n_times = 0;
  if (value.is_string()) {
    runtime.reserve_text(total);
    return runtime.string(repeated_text(value.text(), n_times));
  }
  runtime.spend(total);
  std::vector<Value> items;
  items.reserve(total);
  for (std::size_t i = 0; i < n_times; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? runtime.list(std::move(items), value.is_trusted())
                               : runtime.tuple(std::move(items), value.is_trusted());
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

Value arithmetic(Runtime& runtime, Arithmetic op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return of_integers(runtime, op, left, right);
  if (left.is_number() && right.is_number()) return of_reals(runtime, op, left, right);
  if (op == Arithmetic::kAdd && left.kind() == right.kind() && can_repeat(left)) {
    return joined(runtime, left, right);
  }
  if (op == Arithmetic::kMultiply && can_repeat(left) && right.is_integral()) {
    return repeated(runtime, left, right.as_integer());
  }
  if (op == Arithmetic::kMultiply && left.is_integral() && can_repeat(right)) {
    return repeated(runtime, right, left.as_integer());
  }
  if (op == Arithmetic::kRemainder && left.is_string()) {
    return printf_format(runtime, left.text(), right);
  }
  fail_operands(runtime, op, left, right);
}

Value negated(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kReal)) return Value::real(-value.as_real(), value.is_trusted());
  if (!value.is_integral()) runtime.fail_type("operator -", value);
  if (value.as_integer() == std::numeric_limits<std::int64_t>::min()) fail_overflow(runtime);
  return Value::integer(-value.as_integer(), value.is_trusted());
}

Value affirmed(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kReal)) return value;
  if (!value.is_integral()) runtime.fail_type("operator +", value);
  return Value::integer(value.as_integer(), value.is_trusted());
}

}  // namespace ft::text::jinja
