// Lookup in the engine's dicts: Python's rules for keys (1, 1.0 and true are one key; lists and
// dicts are none).
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <string_view>
#include <vector>

namespace ft::text::jinja {

/// Removes repeated keys (the last value wins, at the first key's place) and builds the index.
/// Throws InvalidInput for an unhashable key.
DictObject make_dict(Runtime& runtime, std::vector<DictObject::Entry> entries);

/// nullptr if there is no such key. Throws InvalidInput for an unhashable key.
const Value* find(Runtime& runtime, const DictObject& dict, const Value& key);
const Value* find(Runtime& runtime, const DictObject& dict, std::string_view key);

/// True for what can be a key.
bool is_hashable(const Value& value);
/// Equal values have equal hashes. Throws InvalidInput if the value cannot be a key.
std::uint64_t hash_of(Runtime& runtime, const Value& value);

}  // namespace ft::text::jinja
