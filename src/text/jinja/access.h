// Reading out of values: length, iteration, attributes, items, slices.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

/// Walks over what Python's iter() would. The characters of a string, the keys of a dict, nothing
/// of undefined. An iterator is used up by it.
class Cursor {
 public:
  /// Throws InvalidInput for what cannot be iterated.
  Cursor(Runtime& runtime, Value iterable);
  /// False at the end.
  bool next(Value& item);

 private:
  Runtime& runtime_;
  Value iterable_;
  std::size_t position_ = 0;
};

bool is_iterable(const Value& value);
/// All elements. Uses up an iterator.
std::vector<Value> elements(Runtime& runtime, const Value& iterable);

/// Python's len(). Throws InvalidInput for what has none.
std::size_t length(Runtime& runtime, const Value& value);
bool has_length(const Value& value);

/// `object.name`: a method or property first, then an item, else undefined. Throws InvalidInput on
/// an undefined object.
Value attribute(Runtime& runtime, const Value& object, std::string_view name);
/// A method or property of the object, else undefined; its items are not asked.
Value own_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// `object[key]`: an item first, then a method or property, else undefined. Throws InvalidInput on
/// an undefined object.
Value item(Runtime& runtime, const Value& object, const Value& key);
/// The steps of a path as filters take it: a name, an index, or several with dots between; none has
/// no steps.
std::vector<Value> path_steps(Runtime& runtime, const Value& path);
/// item() along the steps. An undefined step becomes `fallback` unless that is missing or none;
/// otherwise throws InvalidInput if it is not the last.
Value item_at(Runtime& runtime,
              const Value& object,
              const std::vector<Value>& steps,
              const Value& fallback);

/// `object[start:stop:step]`; missing or none bounds are open.
Value slice(Runtime& runtime,
            const Value& object,
            const Value& start,
            const Value& stop,
            const Value& step);

/// One character of a string, as a string.
Value character(Runtime& runtime, const Value& string, std::size_t index);

}  // namespace ft::text::jinja
