#include "text/jinja/printf_format.h"

#include "text/jinja/dict.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

// Wider fields or more digits are of no use in a prompt.
constexpr std::size_t kMaxWidth = 1000;

/// One %... of the format.
struct Directive {
  std::optional<std::string_view> name;
  bool is_left = false, has_sign = false, has_blank = false, is_alternate = false,
       has_zeros = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char type = 0;
};

/// Sign, prefix and digits of a number in their field.
std::string in_field(const Directive& directive,
                     bool is_negative,
                     std::string_view prefix,
                     std::string_view digits,
                     bool allows_zeros) {
  std::string head = is_negative ? "-" : directive.has_sign ? "+" : directive.has_blank ? " " : "";
  head += prefix;
  const std::size_t n = head.size() + digits.size();
  const std::size_t n_fill = directive.width > n ? directive.width - n : 0;
  if (directive.is_left) return fmt::format("{}{}{}", head, digits, std::string(n_fill, ' '));
  if (directive.has_zeros && allows_zeros) {
    return fmt::format("{}{}{}", head, std::string(n_fill, '0'), digits);
  }
  return fmt::format("{}{}{}", std::string(n_fill, ' '), head, digits);
}

std::string integer_text(const Directive& directive, std::int64_t value) {
  const bool is_negative = value < 0;
  const std::uint64_t magnitude =
      is_negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string digits;
  std::string_view prefix;
  switch (directive.type) {
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    default:
      digits = fmt::format("{}", magnitude);
      break;
  }
  if (!directive.is_alternate) prefix = "";
  const std::size_t n_digits = directive.precision.value_or(0);
  if (digits.size() < n_digits) digits.insert(0, n_digits - digits.size(), '0');
  return in_field(directive, is_negative, prefix, digits, true);
}

std::string real_text(const Directive& directive, double value) {
  const std::size_t precision = directive.precision.value_or(6);
  const double magnitude = std::fabs(value);
  std::string digits;
  switch (directive.type | 0x20) {
    case 'e':
      digits = directive.is_alternate ? fmt::format("{:#.{}e}", magnitude, precision)
                                      : fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'f':
      digits = directive.is_alternate ? fmt::format("{:#.{}f}", magnitude, precision)
                                      : fmt::format("{:.{}f}", magnitude, precision);
      break;
    default:
      digits = directive.is_alternate ? fmt::format("{:#.{}g}", magnitude, precision)
                                      : fmt::format("{:.{}g}", magnitude, precision);
      break;
  }
  if (directive.type < 'a') {
    std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    });
  }
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  return in_field(directive, is_negative, "", digits, std::isfinite(value));
}

class PrintfFormatter {
 public:
  PrintfFormatter(Runtime& runtime, const MarkedText& format, const Value& values)
      : runtime_(runtime), format_(format), bytes_(format.bytes()), values_(values) {}

  MarkedText run() {
    runtime_.spend_bytes(bytes_.size());
    while (position_ < bytes_.size()) {
      const std::size_t percent = std::min(bytes_.find('%', position_), bytes_.size());
      out_.append(format_, position_, percent);
      position_ = percent;
      if (percent < bytes_.size()) fill(read_directive());
    }
    const bool is_mapping = values_.is(Kind::kDict) || values_.is(Kind::kList);
    if (!is_mapping && n_used_ < n_values())
      runtime_.fail("the format does not use all its values");
    return std::move(out_);
  }

 private:
  std::size_t n_values() const { return values_.is(Kind::kTuple) ? values_.items().size() : 1; }

  char peek() {
    if (position_ >= bytes_.size()) runtime_.fail("the format ends inside of a '%'");
    return bytes_[position_];
  }

  const Value& next_value() {
    if (n_used_ >= n_values()) runtime_.fail("the format needs more values");
    ++n_used_;
    return values_.is(Kind::kTuple) ? values_.items()[n_used_ - 1] : values_;
  }

  /// A number or '*' in the format.
  std::int64_t read_number() {
    if (peek() == '*') {
      ++position_;
      const Value& value = next_value();
      if (!value.is_integral()) runtime_.fail_type("'*' in a format", value);
      return checked(value.as_integer());
    }
    std::int64_t n = 0;
    while (peek() >= '0' && peek() <= '9') n = checked(n * 10 + (bytes_[position_++] - '0'));
    return n;
  }

  std::int64_t checked(std::int64_t n) const {
    constexpr auto limit = static_cast<std::int64_t>(kMaxWidth);
    if (n > limit || n < -limit) {
      runtime_.fail(fmt::format("a field of the format is wider than {}", kMaxWidth));
    }
    return n;
  }

  bool read_flag(Directive& directive) {
    switch (peek()) {
      case '-':
        directive.is_left = true;
        break;
      case '+':
        directive.has_sign = true;
        break;
      case ' ':
        directive.has_blank = true;
        break;
      case '#':
        directive.is_alternate = true;
        break;
      case '0':
        directive.has_zeros = true;
        break;
      default:
        return false;
    }
    ++position_;
    return true;
  }

  Directive read_directive() {
    Directive directive;
    ++position_;  // the '%'
    if (peek() == '(') {
      const std::size_t end = bytes_.find(')', position_);
      if (end == std::string_view::npos) runtime_.fail("the format ends inside of a '%('");
      directive.name = bytes_.substr(position_ + 1, end - position_ - 1);
      position_ = end + 1;
    }
    while (read_flag(directive)) {
    }
    const std::int64_t width = read_number();
    directive.is_left = directive.is_left || width < 0;
    directive.width = static_cast<std::size_t>(std::abs(width));
    if (peek() == '.') {
      ++position_;
      directive.precision = static_cast<std::size_t>(std::max<std::int64_t>(read_number(), 0));
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++position_;
    directive.type = peek();
    ++position_;
    return directive;
  }

  Value value_for(const Directive& directive) {
    if (!directive.name) return next_value();
    if (!values_.is(Kind::kDict)) runtime_.fail("the format needs a dict for '%('");
    const Value* value = find(runtime_, values_.as_dict(), *directive.name);
    if (value == nullptr)
      runtime_.fail(fmt::format("the format's dict has no '{}'", *directive.name));
    return *value;
  }

  void fill(const Directive& directive) {
    if (directive.type == '%') return out_.append("%", format_.is_trusted_at(position_ - 1));
    const Value value = value_for(directive);
    constexpr std::string_view integers = "diuoxX";
    constexpr std::string_view reals = "eEfFgG";
    if (directive.type == 's' || directive.type == 'r') return fill_text(directive, value);
    if (directive.type == 'c') return fill_character(directive, value);
    if (integers.find(directive.type) != std::string_view::npos) {
      return out_.append(integer_text(directive, integer_of(directive, value)), value.is_trusted());
    }
    if (reals.find(directive.type) != std::string_view::npos) {
      if (!value.is_number()) runtime_.fail_type(fmt::format("'%{}'", directive.type), value);
      return out_.append(real_text(directive, value.as_real()), value.is_trusted());
    }
    runtime_.fail(fmt::format("the format has an unknown '%{}'", directive.type));
  }

  std::int64_t integer_of(const Directive& directive, const Value& value) {
    const bool takes_reals =
        directive.type == 'd' || directive.type == 'i' || directive.type == 'u';
    if (value.is_integral()) return value.as_integer();
    constexpr double limit = 9.2e18;
    if (!value.is(Kind::kReal) || !takes_reals || !(std::fabs(value.as_real()) < limit)) {
      runtime_.fail_type(fmt::format("'%{}'", directive.type), value);
    }
    return static_cast<std::int64_t>(value.as_real());
  }

  void fill_text(const Directive& directive, const Value& value) {
    MarkedText text;
    if (directive.type == 's') {
      append_str(runtime_, text, value);
    } else {
      append_repr(runtime_, text, value);
    }
    append_in_field(directive, text);
  }

  void fill_character(const Directive& directive, const Value& value) {
    if (value.is_string() && value.as_string().n_characters == 1) {
      return append_in_field(directive, value.text());
    }
    constexpr std::int64_t n_codes = 0x110000;
    if (!value.is_integral() || value.as_integer() < 0 || value.as_integer() >= n_codes ||
        (value.as_integer() >= 0xD800 && value.as_integer() < 0xE000)) {
      runtime_.fail_type("'%c'", value);
    }
    std::string character;
    append_utf8(character, static_cast<char32_t>(value.as_integer()));
    append_in_field(directive, MarkedText(std::move(character), value.is_trusted()));
  }

  void append_in_field(const Directive& directive, const MarkedText& text) {
    std::size_t end = text.size();
    if (directive.precision) end = character_offset(text.bytes(), *directive.precision);
    const std::size_t n = count_characters(std::string_view(text.bytes()).substr(0, end));
    const std::string fill(directive.width > n ? directive.width - n : 0, ' ');
    if (!directive.is_left) out_.append(fill, true);
    out_.append(text, 0, end);
    if (directive.is_left) out_.append(fill, true);
  }

  Runtime& runtime_;
  const MarkedText& format_;
  std::string_view bytes_;
  const Value& values_;
  std::size_t position_ = 0;
  std::size_t n_used_ = 0;
  MarkedText out_;
};

}  // namespace

Value printf_format(Runtime& runtime, const MarkedText& format, const Value& values) {
  return runtime.string(PrintfFormatter(runtime, format, values).run());
}

}  // namespace ft::text::jinja
