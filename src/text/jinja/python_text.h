// Values as text: Python's str() and repr(), and JSON as Hugging Face's tojson writes it.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <optional>
#include <string>

namespace ft::text::jinja {

/// str(value), appended. Throws InvalidInput for objects without a stable text (iterators,
/// functions).
void append_str(Runtime& runtime, MarkedText& out, const Value& value);
/// repr(value), appended.
void append_repr(Runtime& runtime, MarkedText& out, const Value& value);
/// str(value) as a string value; a string comes back as it is.
Value to_string(Runtime& runtime, const Value& value);

/// The shortest digits that read back as the same number, in Python's layout: 1.0, 1e+16, inf, nan.
std::string format_real(double value);

struct JsonStyle {
  bool escapes_ascii = false;        // ensure_ascii
  bool sorts_keys = false;           // sort_keys
  std::optional<MarkedText> indent;  // one level's white space; none: all on one line
  MarkedText item_separator{", ", true};
  MarkedText key_separator{": ", true};
};

/// json.dumps(value). Keys keep their order. Throws InvalidInput for what JSON cannot express.
MarkedText to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace ft::text::jinja
