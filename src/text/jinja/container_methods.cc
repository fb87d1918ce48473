// The methods of lists, tuples, dicts and cyclers, and the choice of a type's methods.
#include "text/jinja/access.h"
#include "text/jinja/dict.h"
#include "text/jinja/loop.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/operators.h"

#include <algorithm>
#include <array>

namespace ft::text::jinja {
namespace {

using Self = const Value&;
using Args = const Arguments&;

Value index_of(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "index()", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.items();
  const auto n = static_cast<std::int64_t>(items.size());
  const auto clamp = [n](std::int64_t index) {
    return std::min(index < 0 ? std::max<std::int64_t>(index + n, 0) : index, n);
  };
  const std::int64_t stop = clamp(bound.integer(2, n));
  for (std::int64_t i = clamp(bound.integer(1, 0)); i < stop; ++i) {
    if (equal(runtime, items[static_cast<std::size_t>(i)], bound[0])) return Value::integer(i);
  }
  runtime.fail("index(): the value is not in the list");
}

Value count_items(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "count()", arguments, {"value"}, 1);
  std::int64_t n = 0;
  for (const Value& item : self.items()) n += equal(runtime, item, bound[0]) ? 1 : 0;
  return Value::integer(n);
}

/// Values are immutable, so a copy is the value itself.
Value copy(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "copy()", arguments, {});
  return self;
}

Value get(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "get()", arguments, {"key", "default"}, 1);
  if (const Value* value = find(runtime, self.as_dict(), bound[0])) return *value;
  return bound.has(1) ? bound[1] : Value::none();
}

template <DictViewObject::Part part>
Value view(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "a view method of dicts", arguments, {});
  DictViewObject content;
  content.dict = self;
  content.part = part;
  return runtime.object(Kind::kDictView, std::move(content), self.depth());
}

Value cycler_next(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "next()", arguments, {});
  auto& cycler = self.as<CyclerObject>();
  const std::size_t position = cycler.position;
  cycler.position = (position + 1) % cycler.items.size();
  return cycler.items[position];
}

Value cycler_reset(Runtime& runtime, Self self, Args arguments) {
  const Bound bound(runtime, "reset()", arguments, {});
  self.as<CyclerObject>().position = 0;
  return Value::none();
}

constexpr auto kSequenceMethods =
    std::to_array<Method>({{"count", count_items}, {"index", index_of}});
constexpr auto kListMethods =
    std::to_array<Method>({{"copy", copy}, {"count", count_items}, {"index", index_of}});
constexpr auto kDictMethods = std::to_array<Method>({
    {"copy", copy},
    {"get", get},
    {"items", view<DictViewObject::Part::kItems>},
    {"keys", view<DictViewObject::Part::kKeys>},
    {"values", view<DictViewObject::Part::kValues>},
});
constexpr auto kCyclerMethods =
    std::to_array<Method>({{"next", cycler_next}, {"reset", cycler_reset}});
static_assert(is_sorted_by_name(kSequenceMethods) && is_sorted_by_name(kListMethods) &&
              is_sorted_by_name(kDictMethods) && is_sorted_by_name(kCyclerMethods));

}  // namespace

const Method* find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kString:
      return find_string_method(name);
    case Kind::kList:
      return find_by_name(kListMethods, name);
    case Kind::kTuple:
    case Kind::kRange:
      return find_by_name(kSequenceMethods, name);
    case Kind::kDict:
      return find_by_name(kDictMethods, name);
    case Kind::kLoop:
      return find_loop_method(name);
    case Kind::kCycler:
      return find_by_name(kCyclerMethods, name);
    default:
      return nullptr;
  }
}

bool is_forbidden_method(Kind kind, std::string_view name) {
  constexpr std::array<std::string_view, 5> of_dicts = {
      "clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::array<std::string_view, 8> of_lists = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  if (kind == Kind::kDict)
    return std::find(of_dicts.begin(), of_dicts.end(), name) != of_dicts.end();
  if (kind == Kind::kList)
    return std::find(of_lists.begin(), of_lists.end(), name) != of_lists.end();
  return false;
}

}  // namespace ft::text::jinja
