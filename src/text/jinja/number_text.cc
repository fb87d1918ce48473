#include "text/jinja/number_text.h"

#include "text/jinja/unicode.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(skip_spaces(text));
  return text.substr(0, end_without_spaces(text));
}

char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool is_alphanumeric(char c) {
  const char l = to_lower(c);
  return (c >= '0' && c <= '9') || (l >= 'a' && l <= 'z');
}

/// Without the '_' between digits; nullopt if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !is_alphanumeric(text[i - 1]) ||
               !is_alphanumeric(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

/// Takes "0x", "0o" or "0b" off if it fits the base, and settles base 0.
void take_prefix(std::string_view& digits, int& base) {
  int named = 0;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = to_lower(digits[1]);
    named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  }
  if (named != 0 && (base == 0 || base == named)) {
    digits.remove_prefix(digits[2] == '_' ? 3 : 2);
    base = named;
  }
  if (base == 0) base = 10;
}

}  // namespace

std::optional<std::int64_t> parse_integer(Runtime& runtime,
                                          std::string_view text,
                                          std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) runtime.fail("an integer's base must be 0 or 2 to 36");
  runtime.spend_bytes(text.size());
  std::string_view digits = trimmed(text);
  const bool is_negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  int radix = static_cast<int>(base);
  take_prefix(digits, radix);
  const auto plain = without_underscores(digits);
  // A second sign would pass from_chars.
  if (!plain || plain->empty() || !is_alphanumeric(plain->front())) return std::nullopt;
  const std::string signed_digits = (is_negative ? "-" : "") + *plain;
  std::int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto parsed = std::from_chars(signed_digits.data(), end, value, radix);
  if (parsed.ptr != end) return std::nullopt;
  if (parsed.ec != std::errc()) runtime.fail("an integer does not fit 64 bits");
  return value;
}

std::optional<double> parse_real(Runtime& runtime, std::string_view text) {
  runtime.spend_bytes(text.size());
  auto digits = without_underscores(trimmed(text));
  if (!digits || digits->empty()) return std::nullopt;
  for (char& c : *digits) c = to_lower(c);
  const bool has_sign = digits->front() == '-' || digits->front() == '+';
  const std::string body = has_sign ? digits->substr(1) : *digits;
  const double sign = digits->front() == '-' ? -1.0 : 1.0;
  if (body == "inf" || body == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (body == "nan") return std::numeric_limits<double>::quiet_NaN();
  const bool is_number = !body.empty() && ((body[0] >= '0' && body[0] <= '9') || body[0] == '.');
  if (!is_number) return std::nullopt;
  double value = 0;
  const auto parsed = std::from_chars(body.data(), body.data() + body.size(), value);
  if (parsed.ptr != body.data() + body.size()) return std::nullopt;
  // from_chars leaves the value alone then; Python rounds to zero or infinity, as strtod does.
  if (parsed.ec == std::errc::result_out_of_range) value = std::strtod(body.c_str(), nullptr);
  return sign * value;
}

double round_decimal(double value, int n_digits) {
  if (!std::isfinite(value) || value == 0) return value;
  const double magnitude = std::fabs(value);
  std::string text;
  if (n_digits >= 0) {
    text = fmt::format("{:.{}f}", magnitude, n_digits);
  } else {
    // The digits in front of the point that stay, as those of a number in scientific notation.
    const int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
    const int n_kept = exponent + n_digits;
    if (n_kept < -1) return std::copysign(0.0, value);
    if (n_kept == -1) {
      // Less than one unit: up to half of it, exactly, rounds to zero.
      const double unit = std::pow(10.0, -n_digits);
      return std::copysign(magnitude > unit / 2 ? unit : 0.0, value);
    }
    text = fmt::format("{:.{}e}", magnitude, n_kept);
  }
  return std::copysign(std::strtod(text.c_str(), nullptr), value);
}

}  // namespace ft::text::jinja
