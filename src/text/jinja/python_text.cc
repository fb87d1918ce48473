#include "text/jinja/python_text.h"

#include "text/jinja/access.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

/// Contents of a container between commas; `append_one(i)` writes element i.
template <typename AppendOne>
void append_listed(Runtime& runtime,
                   MarkedText& out,
                   std::size_t n,
                   bool is_trusted,
                   const AppendOne& append_one) {
  runtime.spend(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) out.append(", ", is_trusted);
    append_one(i);
  }
}

void append_string_repr(Runtime& runtime, MarkedText& out, const MarkedText& text) {
  runtime.spend_bytes(4 * text.size());
  const std::string& bytes = text.bytes();
  const bool is_trusted = text.is_all_trusted();
  const bool uses_double =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const std::string_view quote = uses_double ? "\"" : "'";
  out.append(quote, is_trusted);
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    const auto code = static_cast<std::uint32_t>(c.code);
    if (code == '\\' || code == static_cast<std::uint32_t>(quote[0])) {
      out.append("\\", text.is_trusted_at(i));
      out.append(text, i, i + 1);
    } else if (is_printable(c.code)) {
      out.append(text, i, i + c.n_bytes);
    } else {
      std::string escape;
      if (code == '\n') {
        escape = "\\n";
      } else if (code == '\r') {
        escape = "\\r";
      } else if (code == '\t') {
        escape = "\\t";
      } else if (code < 0x100) {
        escape = fmt::format("\\x{:02x}", code);
      } else {
        escape = code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
      }
      out.append(escape, text.is_trusted_at(i));
    }
    i += c.n_bytes;
  }
  out.append(quote, is_trusted);
}

void append_items(Runtime& runtime,
                  MarkedText& out,
                  const std::vector<Value>& items,
                  bool is_trusted) {
  append_listed(runtime, out, items.size(), is_trusted, [&](std::size_t i) {
    append_repr(runtime, out, items[i]);
  });
}

void append_dict(Runtime& runtime, MarkedText& out, const Value& value) {
  const auto& entries = value.as_dict().entries;
  const bool is_trusted = value.is_trusted();
  out.append("{", is_trusted);
  append_listed(runtime, out, entries.size(), is_trusted, [&](std::size_t i) {
    append_repr(runtime, out, entries[i].key);
    out.append(": ", is_trusted);
    append_repr(runtime, out, entries[i].value);
  });
  out.append("}", is_trusted);
}

void append_view(Runtime& runtime, MarkedText& out, const Value& value) {
  const auto part = value.as<DictViewObject>().part;
  const bool is_trusted = value.as<DictViewObject>().dict.is_trusted();
  out.append(part == DictViewObject::Part::kKeys     ? "dict_keys(["
             : part == DictViewObject::Part::kValues ? "dict_values(["
                                                     : "dict_items([",
             is_trusted);
  append_items(runtime, out, elements(runtime, value), is_trusted);
  out.append("])", is_trusted);
}

void append_namespace(Runtime& runtime, MarkedText& out, const Value& value) {
  const auto& members = value.as<NamespaceObject>().members;
  out.append("<Namespace {", true);
  append_listed(runtime, out, members.size(), true, [&](std::size_t i) {
    append_string_repr(runtime, out, MarkedText(members[i].first, true));
    out.append(": ", true);
    append_repr(runtime, out, members[i].second);
  });
  out.append("}>", true);
}

void append_range(MarkedText& out, const SequenceObject& range) {
  std::string text = fmt::format("range({}, {}", range.range_start, range.range_stop);
  if (range.range_step != 1) text += fmt::format(", {}", range.range_step);
  out.append(text + ")", true);
}

void append_container(Runtime& runtime, MarkedText& out, const Value& value) {
  // Values nest only so deep, but a namespace may contain itself.
  const Runtime::Level level(runtime);
  const bool is_trusted = value.is_trusted();
  switch (value.kind()) {
    case Kind::kList:
      out.append("[", is_trusted);
      append_items(runtime, out, value.items(), is_trusted);
      return out.append("]", is_trusted);
    case Kind::kTuple:
      out.append("(", is_trusted);
      append_items(runtime, out, value.items(), is_trusted);
      return out.append(value.items().size() == 1 ? ",)" : ")", is_trusted);
    case Kind::kRange:
      return append_range(out, value.as<SequenceObject>());
    case Kind::kDict:
      return append_dict(runtime, out, value);
    case Kind::kDictView:
      return append_view(runtime, out, value);
    case Kind::kNamespace:
      return append_namespace(runtime, out, value);
    case Kind::kLoop: {
      auto& loop = value.as<LoopObject>();
      const std::size_t n = loop.length(runtime);
      return out.append(fmt::format("<LoopContext {}/{}>", loop.index0() + 1, n), true);
    }
    case Kind::kMacro:
      return out.append(macro_text(value.as<MacroObject>()), true);
    case Kind::kIterator:
      runtime.fail("an iterator has no text; turn it into a list with '|list' or join it");
    default:
      runtime.fail_type("text", value);
  }
}

}  // namespace

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(
          buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific)
          .ptr;
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = scientific.find('e');
  int exponent = 0;
  const bool is_negative = scientific[e + 1] == '-';
  std::from_chars(scientific.data() + e + 2, end, exponent);
  if (is_negative) exponent = -exponent;
  // Python's rule for repr: fixed notation for exponents in [-4, 16).
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  std::array<char, 40> fixed{};
  const auto fixed_end =
      std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed).ptr;
  std::string text(fixed.data(), static_cast<std::size_t>(fixed_end - fixed.data()));
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_repr(Runtime& runtime, MarkedText& out, const Value& value) {
  runtime.check_text(out.size());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return out.append("Undefined", true);
    case Kind::kString:
      return append_string_repr(runtime, out, value.text());
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInteger:
    case Kind::kReal:
      return append_str(runtime, out, value);
    default:
      return append_container(runtime, out, value);
  }
}

void append_str(Runtime& runtime, MarkedText& out, const Value& value) {
  runtime.check_text(out.size());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return;
    case Kind::kNone:
      return out.append("None", value.is_trusted());
    case Kind::kBool:
      return out.append(value.as_bool() ? "True" : "False", value.is_trusted());
    case Kind::kInteger:
      return out.append(fmt::format("{}", value.as_integer()), value.is_trusted());
    case Kind::kReal:
      return out.append(format_real(value.as_real()), value.is_trusted());
    case Kind::kString:
      runtime.reserve_text(value.text().size());
      return out.append(value.text());
    default:
      return append_container(runtime, out, value);
  }
}

Value to_string(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  MarkedText text;
  append_str(runtime, text, value);
  return runtime.string(std::move(text));
}

}  // namespace ft::text::jinja
