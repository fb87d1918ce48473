// Filters that apply another filter, a test or an attribute to each element.
#include "text/jinja/access.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/method_tables.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

using Input = const Value&;
using Args = const Arguments&;

const std::string& name_argument(Runtime& runtime, const Value& value, std::string_view what) {
  if (!value.is_string()) runtime.fail_type(fmt::format("the name of a {}", what), value);
  return value.bytes();
}

/// The arguments behind the first n.
Arguments rest_of(Args arguments, std::size_t n) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(n),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map_attribute(Runtime& runtime, Input input, Args arguments) {
  const Bound bound(runtime, "filter 'map'", arguments, {"attribute", "default"}, 1);
  const std::vector<Value> steps = path_steps(runtime, bound[0]);
  std::vector<Value> out;
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) out.push_back(item_at(runtime, element, steps, bound[1]));
  return runtime.iterator(std::move(out));
}

Value map(Runtime& runtime, Input input, Args arguments) {
  if (!is_true(input)) return runtime.iterator({});
  if (arguments.positional.empty()) {
    if (arguments.find_named("attribute") != nullptr)
      return map_attribute(runtime, input, arguments);
    runtime.fail("filter 'map' needs the name of a filter, or attribute=");
  }
  const std::string& name = name_argument(runtime, arguments.positional[0], "filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) runtime.fail(fmt::format("unknown filter '{}'", name));
  const Arguments rest = rest_of(arguments, 1);
  std::vector<Value> out;
  Cursor cursor(runtime, input);
  Value element;
  // A filter may be map itself, so this is a level of evaluation.
  const Runtime::Level level(runtime);
  while (cursor.next(element)) out.push_back(filter->call(runtime, element, rest));
  return runtime.iterator(std::move(out));
}

enum class Keep : std::uint8_t { kPassing, kFailing };

/// Elements whose `steps` pass (or fail) the test named by argument i; without it, their truth
/// decides.
Value select_by(Runtime& runtime,
                Input input,
                Args arguments,
                const std::vector<Value>& steps,
                std::size_t i,
                Keep keep) {
  const Test* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > i) {
    const std::string& name = name_argument(runtime, arguments.positional[i], "test");
    test = find_test(name);
    if (test == nullptr) runtime.fail(fmt::format("unknown test '{}'", name));
    rest = rest_of(arguments, i + 1);
  }
  std::vector<Value> out;
  Cursor cursor(runtime, input);
  Value element;
  while (cursor.next(element)) {
    const Value value = item_at(runtime, element, steps, {});
    const bool passes = test != nullptr ? test->call(runtime, value, rest) : is_true(value);
    if (passes == (keep == Keep::kPassing)) out.push_back(element);
  }
  return runtime.iterator(std::move(out));
}

template <Keep keep>
Value select(Runtime& runtime, Input input, Args arguments) {
  if (!is_true(input)) return runtime.iterator({});
  return select_by(runtime, input, arguments, {}, 0, keep);
}

template <Keep keep>
Value select_attribute(Runtime& runtime, Input input, Args arguments) {
  if (!is_true(input)) return runtime.iterator({});
  if (arguments.positional.empty()) runtime.fail("the filter needs the name of an attribute");
  return select_by(
      runtime, input, arguments, path_steps(runtime, arguments.positional[0]), 1, keep);
}

constexpr auto kFilters = std::to_array<Filter>({
    {"map", map},
    {"reject", select<Keep::kFailing>},
    {"rejectattr", select_attribute<Keep::kFailing>},
    {"select", select<Keep::kPassing>},
    {"selectattr", select_attribute<Keep::kPassing>},
});
static_assert(is_sorted_by_name(kFilters));

}  // namespace

const Filter* find_selection_filter(std::string_view name) {
  return find_by_name(kFilters, name);
}

}  // namespace ft::text::jinja
