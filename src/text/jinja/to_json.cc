// to_json() of python_text.h.
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

class JsonText {
 public:
  JsonText(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void append(const Value& value, std::size_t level) {
    runtime_.spend(1);
    runtime_.check_text(out_.size());
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null", value.is_trusted());
      case Kind::kBool:
        return out_.append(value.as_bool() ? "true" : "false", value.is_trusted());
      case Kind::kInteger:
        return out_.append(fmt::format("{}", value.as_integer()), value.is_trusted());
      case Kind::kReal:
        return out_.append(real(value.as_real()), value.is_trusted());
      case Kind::kString:
        return append_string(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return append_list(value, level + 1);
      case Kind::kDict:
        return append_dict(value, level + 1);
      default:
        runtime_.fail_type("JSON text", value);
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return format_real(value);
  }

  void append_escaped(char32_t code, bool is_trusted) {
    const auto unit = static_cast<std::uint32_t>(code);
    if (unit >= 0x10000) {
      const std::uint32_t offset = unit - 0x10000;
      return out_.append(
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800U + (offset >> 10U), 0xDC00U + (offset & 0x3FFU)),
          is_trusted);
    }
    out_.append(fmt::format("\\u{:04x}", unit), is_trusted);
  }

  void append_string(const MarkedText& text) {
    runtime_.spend_bytes(2 * text.size());
    const bool is_trusted = text.is_all_trusted();
    const std::string& bytes = text.bytes();
    out_.append("\"", is_trusted);
    std::size_t plain = 0;  // begin of what needs no escape
    for (std::size_t i = 0; i < bytes.size();) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      const bool is_escaped =
          byte < 0x20 || byte == '"' || byte == '\\' || (style_.escapes_ascii && byte >= 0x7F);
      if (!is_escaped) {
        ++i;
        continue;
      }
      out_.append(text, plain, i);
      const Character c = decode_character(bytes, i);
      constexpr std::string_view special = "\"\\\n\r\t\f\b";
      constexpr std::string_view letters = "\"\\nrtfb";
      const std::size_t known = byte < 0x7F ? special.find(bytes[i]) : std::string_view::npos;
      if (known != std::string_view::npos) {
        out_.append(std::string{'\\', letters[known]}, text.is_trusted_at(i));
      } else {
        append_escaped(c.code, text.is_trusted_at(i));
      }
      i += c.n_bytes;
      plain = i;
    }
    out_.append(text, plain, bytes.size());
    out_.append("\"", is_trusted);
  }

  /// What stands between the elements of a container is trusted only if the container is.
  void append_punctuation(const MarkedText& text, bool is_trusted) {
    if (is_trusted) return out_.append(text);
    out_.append(text.bytes(), false);
  }

  void append_break(std::size_t level, bool is_trusted) {
    if (!style_.indent) return;
    out_.append("\n", is_trusted);
    runtime_.reserve_text(level * style_.indent->size());
    for (std::size_t i = 0; i < level; ++i) append_punctuation(*style_.indent, is_trusted);
  }

  void append_separator(bool is_first, std::size_t level, bool is_trusted) {
    if (!is_first) append_punctuation(style_.item_separator, is_trusted);
    append_break(level, is_trusted);
  }

  void append_list(const Value& value, std::size_t level) {
    const bool is_trusted = value.is_trusted();
    const std::vector<Value>& items = value.items();
    if (items.empty()) return out_.append("[]", is_trusted);
    out_.append("[", is_trusted);
    for (const Value& item : items) {
      append_separator(&item == items.data(), level, is_trusted);
      append(item, level);
    }
    append_break(level - 1, is_trusted);
    out_.append("]", is_trusted);
  }

  void append_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return append_string(key.text());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInteger:
      case Kind::kReal:
        out_.append("\"", key.is_trusted());
        append(key, 0);
        return out_.append("\"", key.is_trusted());
      default:
        runtime_.fail_type("a JSON key", key);
    }
  }

  void append_dict(const Value& value, std::size_t level) {
    const bool is_trusted = value.is_trusted();
    std::vector<const DictObject::Entry*> entries;
    for (const DictObject::Entry& entry : value.as_dict().entries) entries.push_back(&entry);
    if (entries.empty()) return out_.append("{}", is_trusted);
    if (style_.sorts_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return key_precedes(a->key, b->key);
      });
    }
    out_.append("{", is_trusted);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      append_separator(i == 0, level, is_trusted);
      append_key(entries[i]->key);
      append_punctuation(style_.key_separator, is_trusted);
      append(entries[i]->value, level);
    }
    append_break(level - 1, is_trusted);
    out_.append("}", is_trusted);
  }

  bool key_precedes(const Value& a, const Value& b) { return is_less(runtime_, a, b); }

  Runtime& runtime_;
  const JsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonText text(runtime, style);
  text.append(value, 0);
  return text.take();
}

}  // namespace ft::text::jinja
