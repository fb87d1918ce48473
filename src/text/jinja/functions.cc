// The global functions.
#include "text/jinja/access.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/python_text.h"

#include <array>

namespace ft::text::jinja {
namespace {

using Args = const Arguments&;

/// Entries as dict() takes them: from a dict, or from an iterable of pairs, then from the names.
std::vector<DictObject::Entry> entries_of(Runtime& runtime, Args arguments) {
  std::vector<DictObject::Entry> entries;
  if (arguments.positional.size() > 1)
    runtime.fail("dict() and namespace() take one dict and names");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      entries = source.as_dict().entries;
      runtime.spend(entries.size());
    } else {
      Cursor cursor(runtime, source);
      Value pair;
      while (cursor.next(pair)) {
        std::vector<Value> parts = elements(runtime, pair);
        if (parts.size() != 2) runtime.fail("dict() of a list needs pairs in it");
        entries.push_back({std::move(parts[0]), std::move(parts[1])});
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    entries.push_back({runtime.string(name), value});
  }
  return entries;
}

Value make_dict_value(Runtime& runtime, Args arguments) {
  return runtime.dict(entries_of(runtime, arguments));
}

Value make_namespace(Runtime& runtime, Args arguments) {
  const Value dict = runtime.dict(entries_of(runtime, arguments));
  std::vector<std::pair<std::string, Value>> members;
  for (const DictObject::Entry& entry : dict.as_dict().entries) {
    if (!entry.key.is_string()) runtime.fail_type("the name of a namespace member", entry.key);
    members.emplace_back(entry.key.bytes(), entry.value);
  }
  return runtime.namespace_of(std::move(members));
}

Value make_range(Runtime& runtime, Args arguments) {
  const Bound bound(runtime, "range()", arguments, {"start", "stop", "step"}, 1);
  const std::int64_t first = bound.integer(0, 0);
  return bound.has(1) ? runtime.range(first, bound.integer(1, 0), bound.integer(2, 1))
                      : runtime.range(0, first, 1);
}

Value make_cycler(Runtime& runtime, Args arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    runtime.fail("cycler() needs something to cycle through");
  }
  CyclerObject cycler;
  std::uint32_t depth = 0;
  for (const Value& item : arguments.positional) {
    cycler.items.push_back(item);
    depth = std::max(depth, item.depth());
  }
  return runtime.object(Kind::kCycler, std::move(cycler), depth);
}

Value make_joiner(Runtime& runtime, Args arguments) {
  const Bound bound(runtime, "joiner()", arguments, {"sep"});
  JoinerObject joiner;
  joiner.separator = bound.has(0) ? bound[0] : runtime.string(", ");
  const std::uint32_t depth = joiner.separator.depth();
  return runtime.object(Kind::kJoiner, std::move(joiner), depth);
}

Value raise_exception(Runtime& runtime, Args arguments) {
  const Bound bound(runtime, "raise_exception()", arguments, {"message"}, 1);
  runtime.fail(to_string(runtime, bound[0]).bytes());
}

constexpr auto kFunctions = std::to_array<Function>({
    {"cycler", make_cycler},
    {"dict", make_dict_value},
    {"joiner", make_joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", make_range},
});
static_assert(is_sorted_by_name(kFunctions));

}  // namespace

const Function* find_function(std::string_view name) {
  return find_by_name(kFunctions, name);
}

}  // namespace ft::text::jinja
