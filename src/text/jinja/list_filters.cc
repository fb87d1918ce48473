// Filters over sequences: ends, order, groups.
#include "text/jinja/access.h"
#include "text/jinja/dict.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_operations.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

using Input = const Value&;
using Args = const Arguments&;

/// What elements are compared by: an attribute of theirs, strings in lower case unless case
/// matters.
Value folded(Runtime& runtime, const Value& value, bool is_case_sensitive) {
  if (is_case_sensitive || !value.is_string()) return value;
  return runtime.string(to_case(runtime, value.text(), Case::kLower));
}

struct Keyed {
  Value key;
  Value element;
};

std::vector<Keyed> keyed_elements(Runtime& runtime,
                                  Input input,
                                  const Value& attribute,
                                  const Value& fallback,
                                  bool is_case_sensitive) {
  const std::vector<Value> steps = path_steps(runtime, attribute);
  std::vector<Keyed> out;
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) {
    Value key = folded(runtime, item_at(runtime, element, steps, fallback), is_case_sensitive);
    out.push_back({std::move(key), element});
  }
  return out;
}

void sort_keyed(Runtime& runtime, std::vector<Keyed>& elements, bool is_reversed) {
  // Reversed order keeps equal elements in their order, as Python does.
  std::stable_sort(elements.begin(), elements.end(), [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? is_less(runtime, b.key, a.key) : is_less(runtime, a.key, b.key);
  });
}

std::vector<Value> elements_of(std::vector<Keyed> keyed) {
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (Keyed& k : keyed) out.push_back(std::move(k.element));
  return out;
}

Value first(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'first'", arguments, {});
  Cursor cursor(runtime, input);
  Value element;
  if (cursor.next(element)) return element;
  return runtime.undefined("the sequence is empty, it has no first element");
}

Value last(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'last'", arguments, {});
  if (!has_length(input) || input.is(Kind::kLoop)) runtime.fail_type("filter 'last'", input);
  const std::size_t n = length(runtime, input);
  if (n == 0) return runtime.undefined("the sequence is empty, it has no last element");
  if (input.is_string()) return character(runtime, input, n - 1);
  return elements(runtime, input).back();
}

Value count(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'length'", arguments, {});
  return Value::integer(static_cast<std::int64_t>(length(runtime, input)));
}

Value as_list(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'list'", arguments, {});
  return runtime.list(elements(runtime, input));
}

Value items(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'items'", arguments, {});
  std::vector<Value> out;
  if (input.is(Kind::kUndefined)) return runtime.iterator({});
  if (!input.is(Kind::kDict)) runtime.fail_type("filter 'items'", input);
  for (const DictObject::Entry& entry : input.as_dict().entries) {
    out.push_back(runtime.tuple({entry.key, entry.value}, input.is_trusted()));
  }
  return runtime.iterator(std::move(out));
}

Value reverse(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'reverse'", arguments, {});
  if (input.is_string()) return slice(runtime, input, {}, {}, Value::integer(-1));
  std::vector<Value> out = elements(runtime, input);
  std::reverse(out.begin(), out.end());
  return input.is(Kind::kIterator) ? runtime.list(std::move(out))
                                   : runtime.iterator(std::move(out));
}

Value sort(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(
      runtime, "filter 'sort'", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool is_case_sensitive = bound.truth(1, false);
  // "a,b" sorts by a, then by b.
  std::vector<std::vector<Value>> paths;
  if (bound.has(2) && bound[2].is_string()) {
    for (const MarkedText& part : split(runtime, bound[2].text(), ",", -1, Side::kLeft)) {
      paths.push_back(path_steps(runtime, runtime.string(part)));
    }
  } else {
    paths.push_back(path_steps(runtime, bound[2]));
  }
  std::vector<Keyed> keyed;
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) {
    std::vector<Value> key;
    key.reserve(paths.size());
    for (const auto& path : paths) {
      key.push_back(folded(runtime, item_at(runtime, element, path, {}), is_case_sensitive));
    }
    keyed.push_back({runtime.list(std::move(key)), element});
  }
  sort_keyed(runtime, keyed, bound.truth(0, false));
  return runtime.list(elements_of(std::move(keyed)));
}

Value unique(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'unique'", arguments, {"case_sensitive", "attribute"});
  std::unordered_multimap<std::uint64_t, Value> seen;
  std::vector<Value> out;
  for (Keyed& keyed : keyed_elements(runtime, input, bound[1], {}, bound.truth(0, false))) {
    const std::uint64_t hash = hash_of(runtime, keyed.key);
    const auto [begin, end] = seen.equal_range(hash);
    const bool is_known = std::any_of(
        begin, end, [&](const auto& other) { return equal(runtime, other.second, keyed.key); });
    if (is_known) continue;
    seen.emplace(hash, std::move(keyed.key));
    out.push_back(std::move(keyed.element));
  }
  return runtime.iterator(std::move(out));
}

template <bool is_maximum>
Value extreme(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'min' or 'max'", arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> keyed =
      keyed_elements(runtime, input, bound[1], {}, bound.truth(0, false));
  if (keyed.empty()) return runtime.undefined("the sequence is empty");
  const Keyed* best = keyed.data();
  for (const Keyed& candidate : keyed) {
    if (&candidate == keyed.data()) continue;
    const bool is_better = is_maximum ? is_less(runtime, best->key, candidate.key)
                                      : is_less(runtime, candidate.key, best->key);
    if (is_better) best = &candidate;
  }
  return best->element;
}

Value sort_dict(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'dictsort'", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.is(Kind::kDict)) runtime.fail_type("filter 'dictsort'", input);
  const std::string by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") runtime.fail("filter 'dictsort' sorts by 'key' or 'value'");
  std::vector<Keyed> keyed;
  for (const DictObject::Entry& entry : input.as_dict().entries) {
    keyed.push_back({folded(runtime, by == "key" ? entry.key : entry.value, bound.truth(0, false)),
                     runtime.tuple({entry.key, entry.value}, input.is_trusted())});
  }
  sort_keyed(runtime, keyed, bound.truth(2, false));
  return runtime.list(elements_of(std::move(keyed)));
}

Value group_by(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(
      runtime, "filter 'groupby'", arguments, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<Keyed> keyed =
      keyed_elements(runtime, input, bound[0], bound[1], bound.truth(2, false));
  sort_keyed(runtime, keyed, false);
  const std::vector<Value> steps = path_steps(runtime, bound[0]);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members;
    std::size_t end = begin;
    while (end < keyed.size() && equal(runtime, keyed[begin].key, keyed[end].key)) {
      members.push_back(keyed[end++].element);
    }
    // A group is named by its first member, in that member's own letter case.
    Value name = item_at(runtime, members.front(), steps, bound[1]);
    Value group = runtime.tuple({std::move(name), runtime.list(std::move(members))});
    group.as<SequenceObject>().is_group = true;
    groups.push_back(std::move(group));
    begin = end;
  }
  return runtime.list(std::move(groups));
}

std::size_t positive(Runtime& runtime, const Bound& bound, std::string_view what) {
  const std::int64_t n = bound.integer(0, 0);
  if (n < 1) runtime.fail(fmt::format("{} must be at least 1", what));
  return static_cast<std::size_t>(n);
}

Value batch(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'batch'", arguments, {"linecount", "fill_with"}, 1);
  const std::size_t n = positive(runtime, bound, "the length of a batch");
  std::vector<Value> batches;
  std::vector<Value> current;
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) {
    if (current.size() == n) batches.push_back(runtime.list(std::exchange(current, {})));
    current.push_back(element);
  }
  if (!current.empty()) {
    if (bound.has_value(1)) {
      runtime.spend(n);
      current.resize(std::max(n, current.size()), bound[1]);
    }
    batches.push_back(runtime.list(std::move(current)));
  }
  return runtime.iterator(std::move(batches));
}

Value slices(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'slice'", arguments, {"slices", "fill_with"}, 1);
  const std::size_t n = positive(runtime, bound, "the number of slices");
  const std::vector<Value> all = elements(runtime, input);
  const std::size_t n_longer = all.size() % n;
  std::vector<Value> out;
  auto from = all.begin();
  for (std::size_t i = 0; i < n; ++i) {
    runtime.spend(1);
    const std::size_t n_taken = all.size() / n + (i < n_longer ? 1 : 0);
    const auto to = from + static_cast<std::ptrdiff_t>(n_taken);
    std::vector<Value> part(from, to);
    if (bound.has_value(1) && i >= n_longer) part.push_back(bound[1]);
    out.push_back(runtime.list(std::move(part)));
    from = to;
  }
  return runtime.iterator(std::move(out));
}

Value sum(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'sum'", arguments, {"attribute", "start"});
  const std::vector<Value> steps = path_steps(runtime, bound[0]);
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is_string()) runtime.fail_type("filter 'sum'", total);
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) {
    total = arithmetic(runtime, Arithmetic::kAdd, total, item_at(runtime, element, steps, {}));
  }
  return total;
}

constexpr auto kFilters = std::to_array<Filter>({
    {"batch", batch},
    {"count", count},
    {"dictsort", sort_dict},
    {"first", first},
    {"groupby", group_by},
    {"items", items},
    {"last", last},
    {"length", count},
    {"list", as_list},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reverse", reverse},
    {"slice", slices},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
});
static_assert(is_sorted_by_name(kFilters));

}  // namespace

const Filter* find_list_filter(std::string_view name) {
  return find_by_name(kFilters, name);
}

}  // namespace ft::text::jinja
