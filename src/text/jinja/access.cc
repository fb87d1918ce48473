#include "text/jinja/access.h"

#include "text/jinja/callable.h"
#include "text/jinja/dict.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

Value not_found(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(
      fmt::format("{} has no attribute '{}'", kind_name(object.kind()), name.substr(0, 100)));
}

/// Attributes that are not methods. Missing if there is no such property.
Value property(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kNamespace:
      for (const auto& [member, value] : object.as<NamespaceObject>().members) {
        runtime.spend(1);
        if (member == name) return value;
      }
      return {};
    case Kind::kLoop:
      return object.as<LoopObject>().property(runtime, name);
    case Kind::kMacro:
      return macro_property(runtime, object.as<MacroObject>(), name);
    case Kind::kTuple:
      if (object.as<SequenceObject>().is_group) {
        if (name == "grouper") return object.items()[0];
        if (name == "list") return object.items()[1];
      }
      return {};
    case Kind::kCycler: {
      const auto& cycler = object.as<CyclerObject>();
      return name == "current" ? cycler.items[cycler.position] : Value();
    }
    default:
      return {};
  }
}

/// A property or a method; missing if there is neither.
Value member(Runtime& runtime, const Value& object, std::string_view name) {
  Value found = property(runtime, object, name);
  if (!found.is(Kind::kMissing)) return found;
  if (const Method* method = find_method(object.kind(), name)) {
    MethodObject content;
    content.self = object;
    content.method = method;
    return runtime.object(Kind::kMethod, std::move(content), object.depth());
  }
  if (is_forbidden_method(object.kind(), name)) {
    return runtime.undefined(
        fmt::format("method '{}' would change {} in place", name, kind_name(object.kind())));
  }
  return {};
}

/// Position in [0, n) of a possibly negative index; n if outside.
std::size_t resolve_index(std::int64_t index, std::size_t n) {
  const auto size = static_cast<std::int64_t>(n);
  if (index < 0) index += size;
  return index >= 0 && index < size ? static_cast<std::size_t>(index) : n;
}

struct SliceBounds {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::size_t n = 0;  // elements taken
};

std::int64_t slice_bound(Runtime& runtime, const Value& bound, std::int64_t fallback) {
  if (bound.is(Kind::kMissing) || bound.is(Kind::kNone)) return fallback;
  if (!bound.is_integral()) runtime.fail_type("slice bound", bound);
  return bound.as_integer();
}

SliceBounds slice_bounds(Runtime& runtime,
                         const std::array<const Value*, 3>& given,
                         std::size_t n) {
  constexpr std::int64_t farthest = std::numeric_limits<std::int64_t>::max();
  SliceBounds out;
  // -farthest instead of the lowest integer, so that -step is defined.
  out.step = std::max(slice_bound(runtime, *given[2], 1), -farthest);
  if (out.step == 0) runtime.fail("slice step is 0");
  const auto size = static_cast<std::int64_t>(n);
  const bool is_forward = out.step > 0;
  const auto clamp = [&](std::int64_t bound) {
    if (bound < 0) bound = std::max<std::int64_t>(bound + size, is_forward ? 0 : -1);
    return std::min(bound, is_forward ? size : size - 1);
  };
  out.start = is_forward ? 0 : size - 1;
  std::int64_t stop = is_forward ? size : -1;
  if (!given[0]->is(Kind::kMissing) && !given[0]->is(Kind::kNone)) {
    out.start = clamp(slice_bound(runtime, *given[0], 0));
  }
  if (!given[1]->is(Kind::kMissing) && !given[1]->is(Kind::kNone)) {
    stop = clamp(slice_bound(runtime, *given[1], 0));
  }
  if (is_forward && stop > out.start) {
    out.n = static_cast<std::size_t>((stop - out.start - 1) / out.step + 1);
  } else if (!is_forward && stop < out.start) {
    out.n = static_cast<std::size_t>((out.start - stop - 1) / -out.step + 1);
  }
  return out;
}

Value slice_string(Runtime& runtime, const Value& string, const SliceBounds& bounds) {
  const StringObject& object = string.as_string();
  runtime.spend_bytes(object.text.size());
  std::vector<std::size_t> offsets;  // where each character begins, for other than ASCII
  if (!object.is_ascii()) {
    runtime.spend_bytes(object.n_characters * sizeof(std::size_t));
    offsets.reserve(object.n_characters + 1);
    for (std::size_t i = 0; i < object.text.size();) {
      offsets.push_back(i);
      i += decode_character(object.text.bytes(), i).n_bytes;
    }
    offsets.push_back(object.text.size());
  }
  const auto offset = [&](std::size_t index) { return offsets.empty() ? index : offsets[index]; };
  const auto start = static_cast<std::size_t>(std::max<std::int64_t>(bounds.start, 0));
  if (bounds.n == 0) return runtime.string("");
  if (bounds.step == 1) {
    return runtime.string(object.text.slice(offset(start), offset(start + bounds.n)));
  }
  MarkedText out;
  for (std::size_t i = 0; i < bounds.n; ++i) {
    const auto at =
        static_cast<std::size_t>(bounds.start + static_cast<std::int64_t>(i) * bounds.step);
    out.append(object.text, offset(at), offset(at + 1));
  }
  return runtime.string(std::move(out));
}

Value slice_sequence(Runtime& runtime, const Value& sequence, const SliceBounds& bounds) {
  const auto& object = sequence.as<SequenceObject>();
  runtime.spend(bounds.n);
  std::vector<Value> out;
  out.reserve(bounds.n);
  for (std::size_t i = 0; i < bounds.n; ++i) {
    out.push_back(object.items[static_cast<std::size_t>(
        bounds.start + static_cast<std::int64_t>(i) * bounds.step)]);
  }
  return sequence.is(Kind::kTuple) ? runtime.tuple(std::move(out), sequence.is_trusted())
                                   : runtime.list(std::move(out), sequence.is_trusted());
}

}  // namespace

Cursor::Cursor(Runtime& runtime, Value iterable)
    : runtime_(runtime), iterable_(std::move(iterable)) {
  if (!is_iterable(iterable_)) runtime.fail_type("iteration", iterable_);
}

bool Cursor::next(Value& item) {
  runtime_.spend(1);
  switch (iterable_.kind()) {
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      if (position_ == iterable_.items().size()) return false;
      item = iterable_.items()[position_++];
      return true;
    case Kind::kString: {
      const MarkedText& text = iterable_.text();
      if (position_ == text.size()) return false;
      const std::size_t end = position_ + decode_character(text.bytes(), position_).n_bytes;
      item = runtime_.string(text.slice(position_, end));
      position_ = end;
      return true;
    }
    case Kind::kIterator: {
      auto& iterator = iterable_.as<IteratorObject>();
      if (iterator.position == iterator.items.size()) return false;
      item = iterator.items[iterator.position++];
      return true;
    }
    case Kind::kDict: {
      const auto& entries = iterable_.as_dict().entries;
      if (position_ == entries.size()) return false;
      item = entries[position_++].key;
      return true;
    }
    case Kind::kDictView: {
      const auto& view = iterable_.as<DictViewObject>();
      const auto& entries = view.dict.as_dict().entries;
      if (position_ == entries.size()) return false;
      const DictObject::Entry& entry = entries[position_++];
      if (view.part == DictViewObject::Part::kItems) {
        item = runtime_.tuple({entry.key, entry.value}, view.dict.is_trusted());
      } else {
        item = view.part == DictViewObject::Part::kKeys ? entry.key : entry.value;
      }
      return true;
    }
    default:
      return false;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

std::vector<Value> elements(Runtime& runtime, const Value& iterable) {
  Cursor cursor(runtime, iterable);
  std::vector<Value> out;
  Value next;
  while (cursor.next(next)) out.push_back(std::move(next));
  return out;
}

bool has_length(const Value& value) {
  return is_iterable(value) ? !value.is(Kind::kIterator) : value.is(Kind::kLoop);
}

std::size_t length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.as_string().n_characters;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return value.items().size();
    case Kind::kDict:
      return value.as_dict().entries.size();
    case Kind::kDictView:
      return value.as<DictViewObject>().dict.as_dict().entries.size();
    case Kind::kLoop:
      return value.as<LoopObject>().length(runtime);
    default:
      runtime.fail_type("length", value);
  }
}

Value own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) {
    runtime.fail_type(fmt::format("attribute '{}'", name), object);
  }
  Value found = member(runtime, object, name);
  return found.is(Kind::kMissing) ? not_found(runtime, object, name) : found;
}

Value attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is(Kind::kDict) && find_method(Kind::kDict, name) == nullptr &&
      !is_forbidden_method(Kind::kDict, name)) {
    if (const Value* value = find(runtime, object.as_dict(), name)) return *value;
  }
  return own_attribute(runtime, object, name);
}

Value item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is(Kind::kUndefined)) runtime.fail_type("an item", object);
  if (object.is(Kind::kDict) && is_hashable(key)) {
    if (const Value* value = find(runtime, object.as_dict(), key)) return *value;
  } else if (object.is_sequence() && key.is_integral()) {
    const std::size_t n = object.items().size();
    const std::size_t index = resolve_index(key.as_integer(), n);
    if (index < n) return object.items()[index];
  } else if (object.is_string() && key.is_integral()) {
    const std::size_t n = object.as_string().n_characters;
    const std::size_t index = resolve_index(key.as_integer(), n);
    if (index < n) return character(runtime, object, index);
  }
  if (key.is_string()) {
    Value found = member(runtime, object, key.bytes());
    return found.is(Kind::kMissing) ? not_found(runtime, object, key.bytes()) : found;
  }
  return runtime.undefined(
      fmt::format("{} has no such element{}",
                  kind_name(object.kind()),
                  key.is_integral() ? fmt::format(" {}", key.as_integer()) : std::string()));
}

std::vector<Value> path_steps(Runtime& runtime, const Value& path) {
  if (path.is(Kind::kNone) || path.is(Kind::kMissing)) return {};
  if (!path.is_string()) return {path};
  std::vector<Value> steps;
  const std::string_view bytes = path.bytes();
  for (std::size_t begin = 0; begin <= bytes.size();) {
    const std::size_t end = std::min(bytes.find('.', begin), bytes.size());
    const std::string_view step = bytes.substr(begin, end - begin);
    const bool is_index = !step.empty() && step.size() <= 18 &&
                          step.find_first_not_of("0123456789") == std::string_view::npos;
    steps.push_back(is_index ? Value::integer(std::stoll(std::string(step)))
                             : runtime.string(path.text().slice(begin, end)));
    begin = end + 1;
  }
  return steps;
}

Value item_at(Runtime& runtime,
              const Value& object,
              const std::vector<Value>& steps,
              const Value& fallback) {
  Value value = object;
  for (const Value& step : steps) {
    runtime.spend(1);
    value = item(runtime, value, step);
    if (value.is(Kind::kUndefined) && !fallback.is(Kind::kMissing) && !fallback.is(Kind::kNone)) {
      value = fallback;
    }
  }
  return value;
}

Value slice(Runtime& runtime,
            const Value& object,
            const Value& start,
            const Value& stop,
            const Value& step) {
  if (object.is_string()) {
    return slice_string(
        runtime,
        object,
        slice_bounds(runtime, {&start, &stop, &step}, object.as_string().n_characters));
  }
  if (!object.is_sequence()) runtime.fail_type("a slice", object);
  return slice_sequence(
      runtime, object, slice_bounds(runtime, {&start, &stop, &step}, object.items().size()));
}

Value character(Runtime& runtime, const Value& string, std::size_t index) {
  const StringObject& object = string.as_string();
  if (object.is_ascii()) return runtime.string(object.text.slice(index, index + 1));
  runtime.spend_bytes(object.text.size());
  const std::size_t begin = character_offset(object.text.bytes(), index);
  const std::size_t n_bytes = decode_character(object.text.bytes(), begin).n_bytes;
  return runtime.string(object.text.slice(begin, begin + n_bytes));
}

}  // namespace ft::text::jinja
