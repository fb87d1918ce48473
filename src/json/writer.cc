#include "base/error.h"
#include "json/json.h"

#include <array>
#include <charconv>
#include <cmath>

namespace ft::json {
namespace {

/// Bytes of the well-formed UTF-8 character at text[i], or 0 if there is none (Unicode 15, table
/// 3-7).
std::size_t character_bytes(std::string_view text, std::size_t i) {
  const auto byte = [text](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const auto continues = [byte](std::size_t at, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(at) >= low && byte(at) <= high;
  };
  const unsigned lead = byte(i);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return continues(i + 1) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong form
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // no surrogate
    return continues(i + 1, low, high) && continues(i + 2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // nothing above U+10FFFF
    return continues(i + 1, low, high) && continues(i + 2) && continues(i + 3) ? 4 : 0;
  }
  return 0;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n_bytes = character_bytes(text, i);
    if (n_bytes == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else if (n_bytes == 1) {
      append_escaped(out, text[i]);
      ++i;
    } else {
      out.append(text, i, n_bytes);
      i += n_bytes;
    }
  }
  out += '"';
}

template <typename T>
void append_number(std::string& out, T number) {
  std::array<char, 32> digits{};  // the longest shortest form of a double has 24 characters
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

template <typename Real>
void append_real(std::string& out, Real number) {
  if (!std::isfinite(number)) {
    out += "null";
  } else if (number == 0 && std::signbit(number)) {
    out += "-0.0";  // "-0" would read back as the integer 0
  } else {
    append_number(out, number);
  }
}

}  // namespace

void Writer::separate() {
  if (needs_comma_) {
    text_ += ',';
  }
  needs_comma_ = true;
}

Writer& Writer::begin_object() {
  separate();
  text_ += '{';
  needs_comma_ = false;
  return *this;
}

Writer& Writer::end_object() {
  text_ += '}';
  needs_comma_ = true;
  return *this;
}

Writer& Writer::begin_array() {
  separate();
  text_ += '[';
  needs_comma_ = false;
  return *this;
}

Writer& Writer::end_array() {
  text_ += ']';
  needs_comma_ = true;
  return *this;
}

Writer& Writer::key(std::string_view name) {
  separate();
  append_string(text_, name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

Writer& Writer::value(std::string_view text) {
  separate();
  append_string(text_, text);
  return *this;
}

Writer& Writer::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  return *this;
}

Writer& Writer::value(double number) {
  separate();
  append_real(text_, number);
  return *this;
}

Writer& Writer::value(float number) {
  separate();
  append_real(text_, number);
  return *this;
}

Writer& Writer::value(const Value& value) {
  switch (value.type()) {
    case Value::Type::kNull:
      return null();
    case Value::Type::kBool:
      return this->value(value.as_bool(""));
    case Value::Type::kInteger:
      return this->value(value.as_integer(""));
    case Value::Type::kReal:
      return this->value(value.as_real(""));
    case Value::Type::kString:
      return this->value(value.as_string(""));
    case Value::Type::kArray:
      begin_array();
      for (const Value& element : value.as_array("")) this->value(element);
      return end_array();
    case Value::Type::kObject:
      begin_object();
      for (const auto& [name, element] : value.as_object("")) key(name).value(element);
      return end_object();
  }
  return *this;
}

Writer& Writer::value(std::int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

Writer& Writer::value(std::uint64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

Writer& Writer::null() {
  separate();
  text_ += "null";
  return *this;
}

}  // namespace ft::json
