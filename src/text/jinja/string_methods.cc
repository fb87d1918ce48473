// The methods of strings.
#include "text/jinja/access.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/operators.h"
#include "text/jinja/printf_format.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_operations.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

using Self = const Value&;
using Args = const Arguments&;

std::optional<std::string_view> optional_text(const Bound& bound, std::size_t i) {
  if (!bound.has_value(i)) return std::nullopt;
  return bound.text(i).bytes();
}

template <Case letter_case>
Value change_case(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "a case method of strings", arguments, {});
  return runtime.string(to_case(runtime, self.text(), letter_case));
}

template <Side side>
Value strip_ends(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "strip()", arguments, {"chars"});
  return runtime.string(strip(runtime, self.text(), side, optional_text(bound, 0)));
}

Value to_list(Runtime& runtime, std::vector<MarkedText> pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (MarkedText& piece : pieces) items.push_back(runtime.string(std::move(piece)));
  return runtime.list(std::move(items));
}

template <Side from>
Value split_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "split()", arguments, {"sep", "maxsplit"});
  return to_list(runtime,
                 split(runtime, self.text(), optional_text(bound, 0), bound.integer(1, -1), from));
}

Value split_into_lines(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "splitlines()", arguments, {"keepends"});
  return to_list(runtime, split_lines(runtime, self.text(), bound.truth(0, false)));
}

Value replace_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "replace()", arguments, {"old", "new", "count"}, 2);
  return runtime.string(
      replace(runtime, self.text(), bound.text(0), bound.text(1), bound.integer(2, -1)));
}

/// The bytes of the part [start, end) in characters that find, count and startswith look at.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_valid = true;  // start <= length; beyond it, not even an empty text is found
};

Window window(Runtime& runtime, Self self, const Bound& bound, std::size_t first) {
  const StringObject& object = self.as_string();
  const auto n = static_cast<std::int64_t>(object.n_characters);
  const auto clamp = [n](std::int64_t index) {
    return index < 0 ? std::max<std::int64_t>(index + n, 0) : index;
  };
  const std::int64_t start = bound.has_value(first) ? clamp(bound.integer(first, 0)) : 0;
  const std::int64_t end =
      bound.has_value(first + 1) ? std::min(clamp(bound.integer(first + 1, 0)), n) : n;
  Window out;
  out.is_valid = start <= n && start <= end;
  runtime.spend_bytes(object.text.size());
  if (!out.is_valid) return out;
  const auto offset = [&](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    return object.is_ascii() ? at : character_offset(object.text.bytes(), at);
  };
  out.begin = offset(start);
  out.end = offset(end);
  return out;
}

std::int64_t find_index(Runtime& runtime, Self self, const Bound& bound, bool from_right) {
  const Window part = window(runtime, self, bound, 1);
  const std::string_view needle = bound.text(0).bytes();
  if (!part.is_valid) return -1;
  const std::string_view text =
      std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
  const std::size_t at =
      from_right ? find_last(runtime, text, needle, text.size()) : find_bytes(text, needle, 0);
  if (at == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(
      count_characters(std::string_view(self.bytes()).substr(0, part.begin + at)));
}

template <bool from_right>
Value find_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "find()", arguments, {"sub", "start", "end"}, 1);
  return Value::integer(find_index(runtime, self, bound, from_right));
}

template <bool from_right>
Value index_of_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "index()", arguments, {"sub", "start", "end"}, 1);
  const std::int64_t index = find_index(runtime, self, bound, from_right);
  if (index < 0) runtime.fail("index(): the text is not found");
  return Value::integer(index);
}

Value count_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "count()", arguments, {"sub", "start", "end"}, 1);
  const Window part = window(runtime, self, bound, 1);
  if (!part.is_valid) return Value::integer(0);
  return Value::integer(static_cast<std::int64_t>(
      count_occurrences(runtime,
                        std::string_view(self.bytes()).substr(part.begin, part.end - part.begin),
                        bound.text(0).bytes())));
}

template <bool at_end>
Value has_affix(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(
      runtime, at_end ? "endswith()" : "startswith()", arguments, {"affix", "start", "end"}, 1);
  const Window part = window(runtime, self, bound, 1);
  const std::string_view text =
      std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) runtime.fail_type("startswith() or endswith()", affix);
    const std::string_view wanted = affix.bytes();
    if (!part.is_valid || wanted.size() > text.size()) return false;
    return text.substr(at_end ? text.size() - wanted.size() : 0, wanted.size()) == wanted;
  };
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(matches(bound[0]));
  const auto& affixes = bound[0].items();
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool at_end>
Value remove_affix(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "removeprefix() or removesuffix()", arguments, {"affix"}, 1);
  const std::string& affix = bound.text(0).bytes();
  const std::string& bytes = self.bytes();
  if (affix.size() > bytes.size()) return self;
  const std::size_t begin = at_end ? bytes.size() - affix.size() : 0;
  if (bytes.compare(begin, affix.size(), affix) != 0) return self;
  return runtime.string(at_end ? self.text().slice(0, begin)
                               : self.text().slice(affix.size(), bytes.size()));
}

template <bool from_right>
Value partition(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "partition()", arguments, {"sep"}, 1);
  const std::string& separator = bound.text(0).bytes();
  if (separator.empty()) runtime.fail("a text cannot be split at an empty separator");
  const MarkedText& text = self.text();
  runtime.spend_bytes(text.size());
  const std::size_t at = from_right ? find_last(runtime, text.bytes(), separator, text.size())
                                    : find_bytes(text.bytes(), separator, 0);
  if (at == std::string_view::npos) {
    const Value empty = runtime.string("");
    return from_right ? runtime.tuple({empty, empty, self}) : runtime.tuple({self, empty, empty});
  }
  const std::size_t behind = at + separator.size();
  return runtime.tuple({runtime.string(text.slice(0, at)),
                        runtime.string(text.slice(at, behind)),
                        runtime.string(text.slice(behind, text.size()))});
}

Value join_items(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "join()", arguments, {"iterable"}, 1);
  Cursor cursor(runtime, bound[0]);
  MarkedText out;
  Value item;
  for (bool is_first = true; cursor.next(item); is_first = false) {
    if (!item.is_string()) runtime.fail_type("join()", item);
    if (!is_first) append_str(runtime, out, self);
    append_str(runtime, out, item);
  }
  return runtime.string(std::move(out));
}

template <Side side>
Value pad_text(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "a padding method of strings", arguments, {"width", "fillchar"}, 1);
  const MarkedText fill = bound.has(1) ? bound.text(1) : MarkedText(" ", true);
  if (count_characters(fill.bytes()) != 1) runtime.fail("the fill text must be one character");
  return runtime.string(pad(runtime, self.text(), bound.integer(0, 0), fill, side));
}

Value fill_with_zeros(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "zfill()", arguments, {"width"}, 1);
  const MarkedText& text = self.text();
  const bool has_sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  const std::size_t n_sign = has_sign ? 1 : 0;
  const std::int64_t width = bound.integer(0, 0);
  if (width <= 0) return self;
  MarkedText out = text.slice(0, n_sign);
  out.append(pad(runtime,
                 text.slice(n_sign, text.size()),
                 width - static_cast<std::int64_t>(n_sign),
                 MarkedText("0", true),
                 Side::kRight));
  return runtime.string(std::move(out));
}

/// True if the text is not empty and all its characters are as asked.
template <bool (*is_member)(char32_t)>
Value all_characters(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "a test method of strings", arguments, {});
  runtime.spend_bytes(8 * self.bytes().size());
  for (std::size_t i = 0; i < self.bytes().size();) {
    const Character c = decode_character(self.bytes(), i);
    if (!is_member(c.code)) return Value::boolean(false);
    i += c.n_bytes;
  }
  return Value::boolean(!self.bytes().empty());
}

bool is_alphanumeric(char32_t code) {
  return is_letter(code) || is_digit(code) || is_numeric(code);
}
bool is_ascii_character(char32_t code) {
  return code < 0x80;
}

template <Case letter_case>
Value is_in_case(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "islower() or isupper()", arguments, {});
  return Value::boolean(has_only_case(runtime, self.bytes(), letter_case));
}

Value is_title(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "istitle()", arguments, {});
  runtime.spend_bytes(8 * self.bytes().size());
  bool follows_letter = false;
  bool has_letter = false;
  for (std::size_t i = 0; i < self.bytes().size();) {
    const Character c = decode_character(self.bytes(), i);
    if (is_cased(c.code)) {
      if (is_lower(c.code) != follows_letter) return Value::boolean(false);
      has_letter = true;
    }
    follows_letter = is_cased(c.code);
    i += c.n_bytes;
  }
  return Value::boolean(has_letter);
}

Value format_fields(Runtime& runtime, Self self, Args arguments) {
  return runtime.string(brace_format(runtime, self.text(), arguments));
}

constexpr auto kMethods = std::to_array<Method>({
    {"capitalize", change_case<Case::kCapitalized>},
    {"center", pad_text<Side::kBoth>},
    {"count", count_text},
    {"endswith", has_affix<true>},
    {"find", find_text<false>},
    {"format", format_fields},
    {"index", index_of_text<false>},
    {"isalnum", all_characters<is_alphanumeric>},
    {"isalpha", all_characters<is_letter>},
    {"isascii", all_characters<is_ascii_character>},
    {"isdecimal", all_characters<is_decimal>},
    {"isdigit", all_characters<is_digit>},
    {"islower", is_in_case<Case::kLower>},
    {"isnumeric", all_characters<is_numeric>},
    {"isspace", all_characters<is_space>},
    {"istitle", is_title},
    {"isupper", is_in_case<Case::kUpper>},
    {"join", join_items},
    {"ljust", pad_text<Side::kLeft>},
    {"lower", change_case<Case::kLower>},
    {"lstrip", strip_ends<Side::kLeft>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_text},
    {"rfind", find_text<true>},
    {"rindex", index_of_text<true>},
    {"rjust", pad_text<Side::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split_text<Side::kRight>},
    {"rstrip", strip_ends<Side::kRight>},
    {"split", split_text<Side::kLeft>},
    {"splitlines", split_into_lines},
    {"startswith", has_affix<false>},
    {"strip", strip_ends<Side::kBoth>},
    {"swapcase", change_case<Case::kSwapped>},
    {"title", change_case<Case::kTitle>},
    {"upper", change_case<Case::kUpper>},
    {"zfill", fill_with_zeros},
});
static_assert(is_sorted_by_name(kMethods));

}  // namespace

const Method* find_string_method(std::string_view name) {
  return find_by_name(kMethods, name);
}

}  // namespace ft::text::jinja
