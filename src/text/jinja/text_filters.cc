// Filters that make texts of values, and the choice of a filter.
#include "text/jinja/access.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/printf_format.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_operations.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace ft::text::jinja {
namespace {

using Input = const Value&;
using Args = const Arguments&;

template <Case letter_case>
Value change_case(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "a case filter", arguments, {});
  return runtime.string(to_case(runtime, to_string(runtime, input).text(), letter_case));
}

Value title(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'title'", arguments, {});
  return runtime.string(to_words_title(runtime, to_string(runtime, input).text()));
}

Value as_text(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'string'", arguments, {});
  return to_string(runtime, input);
}

Value trim(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'trim'", arguments, {"chars"});
  std::optional<std::string_view> characters;
  if (bound.has_value(0)) characters = bound.text(0).bytes();
  const Value text = to_string(runtime, input);
  return runtime.string(strip(runtime, text.text(), Side::kBoth, characters));
}

Value replace_text(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'replace'", arguments, {"old", "new", "count"}, 2);
  const std::int64_t n_max = bound.has_value(2) ? bound.integer(2, -1) : -1;
  const Value old = to_string(runtime, bound[0]);
  const Value replacement = to_string(runtime, bound[1]);
  return runtime.string(
      replace(runtime, to_string(runtime, input).text(), old.text(), replacement.text(), n_max));
}

Value center(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'center'", arguments, {"width"});
  return runtime.string(pad(runtime,
                            to_string(runtime, input).text(),
                            bound.integer(0, 80),
                            MarkedText(" ", true),
                            Side::kBoth));
}

Value join(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'join'", arguments, {"d", "attribute"});
  const std::vector<Value> steps = path_steps(runtime, bound[1]);
  Cursor cursor(runtime, input);
  MarkedText out;
  Value element;
  for (bool is_first = true; cursor.next(element); is_first = false) {
    if (!is_first && bound.has(0)) append_str(runtime, out, bound[0]);
    append_str(runtime, out, item_at(runtime, element, steps, {}));
  }
  return runtime.string(std::move(out));
}

Value indent(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'indent'", arguments, {"width", "first", "blank"});
  if (!input.is_string()) runtime.fail_type("filter 'indent'", input);
  MarkedText white;
  if (bound.has(0) && bound[0].is_string()) {
    white = bound[0].text();
  } else {
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(0, 4), 0));
    runtime.reserve_text(width);
    white = MarkedText(std::string(width, ' '), true);
  }
  const bool indents_blank = bound.truth(2, false);
  // splitlines() drops an empty line at the end, the filter keeps it; the newline added here makes
  // the difference.
  MarkedText ended = input.text();
  ended.append("\n", true);
  const std::vector<MarkedText> lines = split_lines(runtime, ended, false);
  MarkedText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    runtime.check_text(out.size());
    runtime.spend_bytes(white.size() + lines[i].size());
    if (i > 0) out.append("\n", true);
    const bool is_indented = i == 0 ? bound.truth(1, false) : indents_blank || !lines[i].empty();
    if (is_indented) out.append(white);
    out.append(lines[i]);
  }
  return runtime.string(std::move(out));
}

Value truncate(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(
      runtime, "filter 'truncate'", arguments, {"length", "killwords", "end", "leeway"});
  if (!input.is_string()) runtime.fail_type("filter 'truncate'", input);
  const MarkedText end = bound.has(2) ? bound.text(2) : MarkedText("...", true);
  const std::int64_t limit = bound.integer(0, 255);
  const std::int64_t leeway = bound.has_value(3) ? bound.integer(3, 5) : 5;
  const auto n_end = static_cast<std::int64_t>(count_characters(end.bytes()));
  if (limit < n_end || leeway < 0) runtime.fail("filter 'truncate': the length is too small");
  const auto n = static_cast<std::int64_t>(input.as_string().n_characters);
  if (n <= limit || n - limit <= leeway) return input;
  runtime.spend_bytes(input.bytes().size());
  std::size_t cut = character_offset(input.bytes(), static_cast<std::size_t>(limit - n_end));
  if (!bound.truth(1, false)) {
    const std::size_t blank = std::string_view(input.bytes()).substr(0, cut).rfind(' ');
    if (blank != std::string_view::npos) cut = blank;
  }
  MarkedText out = input.text().slice(0, cut);
  out.append(end);
  return runtime.string(std::move(out));
}

Value count_words(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'wordcount'", arguments, {});
  const Value text = to_string(runtime, input);
  runtime.spend_bytes(8 * text.bytes().size());
  std::int64_t n = 0;
  bool is_in_word = false;
  for (std::size_t i = 0; i < text.bytes().size();) {
    const Character c = decode_character(text.bytes(), i);
    const bool is_word_character = c.code == '_' || is_letter(c.code) || is_numeric(c.code);
    n += is_word_character && !is_in_word ? 1 : 0;
    is_in_word = is_word_character;
    i += c.n_bytes;
  }
  return Value::integer(n);
}

Value escape(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'escape'", arguments, {});
  const Value value = to_string(runtime, input);
  const MarkedText& text = value.text();
  runtime.reserve_text(2 * text.size());
  MarkedText out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view special = "&<>'\"";
    constexpr std::array<std::string_view, 5> entities = {
        "&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const std::size_t known = special.find(text.bytes()[i]);
    if (known == std::string_view::npos) {
      out.append(text, i, i + 1);
    } else {
      out.append(entities[known], text.is_trusted_at(i));
    }
  }
  return runtime.string(std::move(out));
}

Value format(Runtime& runtime, Input input, Args arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    runtime.fail("filter 'format' takes values in order or by name, not both");
  }
  Value values;
  if (arguments.named.empty()) {
    values = runtime.tuple(arguments.positional);
  } else {
    std::vector<DictObject::Entry> entries;
    for (const auto& [name, value] : arguments.named) {
      entries.push_back({runtime.string(name), value});
    }
    values = runtime.dict(std::move(entries));
  }
  return printf_format(runtime, to_string(runtime, input).text(), values);
}

constexpr auto kFilters = std::to_array<Filter>({
    {"capitalize", change_case<Case::kCapitalized>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", escape},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", change_case<Case::kLower>},
    {"replace", replace_text},
    // Without automatic escaping a text is as safe as it gets.
    {"safe", as_text},
    {"string", as_text},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", change_case<Case::kUpper>},
    {"wordcount", count_words},
});
static_assert(is_sorted_by_name(kFilters));

}  // namespace

const Filter* find_text_filter(std::string_view name) {
  return find_by_name(kFilters, name);
}

const Filter* find_filter(std::string_view name) {
  for (const auto find :
       {find_text_filter, find_number_filter, find_list_filter, find_selection_filter}) {
    if (const Filter* filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace ft::text::jinja
