#include "text/jinja/dict.h"

#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

namespace ft::text::jinja {
namespace {

// Up to this many entries, comparing all keys is faster than hashing one.
constexpr std::size_t kMaxUnindexed = 16;

std::uint64_t hash_bytes(std::string_view bytes) {
  return std::hash<std::string_view>()(bytes);
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9E3779B97F4A7C15U + (a << 6U) + (a >> 2U))) * 0x100000001B3U;
}

std::uint64_t hash_real(double value) {
  constexpr double limit = 9.2e18;  // below 2^63, so that the conversion is defined
  if (std::floor(value) == value && std::fabs(value) < limit) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <typename Matches>
const Value* find_indexed(Runtime& runtime,
                          const DictObject& dict,
                          std::uint64_t hash,
                          const Matches& matches) {
  auto slot = std::lower_bound(
      dict.index.begin(), dict.index.end(), hash, [](const DictObject::Slot& s, std::uint64_t h) {
        return s.hash < h;
      });
  for (; slot != dict.index.end() && slot->hash == hash; ++slot) {
    runtime.spend(1);
    const DictObject::Entry& entry = dict.entries[slot->entry];
    if (matches(entry.key)) return &entry.value;
  }
  return nullptr;
}

std::vector<DictObject::Slot> sorted_index(Runtime& runtime,
                                           const std::vector<DictObject::Entry>& entries) {
  std::vector<DictObject::Slot> index;
  index.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    index.push_back({hash_of(runtime, entries[i].key), static_cast<std::uint32_t>(i)});
  }
  std::sort(index.begin(), index.end(), [](const DictObject::Slot& a, const DictObject::Slot& b) {
    return std::pair(a.hash, a.entry) < std::pair(b.hash, b.entry);
  });
  return index;
}

}  // namespace

DictObject make_dict(Runtime& runtime, std::vector<DictObject::Entry> entries) {
  runtime.spend(entries.size());
  std::vector<DictObject::Slot> index = sorted_index(runtime, entries);
  std::vector<bool> is_repeated(entries.size(), false);
  bool has_repeats = false;
  for (std::size_t i = 0; i < index.size(); ++i) {
    for (std::size_t j = i; j-- > 0 && index[j].hash == index[i].hash;) {
      runtime.spend(1);
      DictObject::Entry& first = entries[index[j].entry];
      DictObject::Entry& later = entries[index[i].entry];
      if (is_repeated[index[j].entry] || !equal(runtime, first.key, later.key)) continue;
      first.value = std::move(later.value);
      is_repeated[index[i].entry] = has_repeats = true;
      break;
    }
  }
  DictObject dict;
  if (has_repeats) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!is_repeated[i]) dict.entries.push_back(std::move(entries[i]));
    }
    if (dict.entries.size() > kMaxUnindexed) dict.index = sorted_index(runtime, dict.entries);
  } else {
    dict.entries = std::move(entries);
    if (dict.entries.size() > kMaxUnindexed) dict.index = std::move(index);
  }
  return dict;
}

const Value* find(Runtime& runtime, const DictObject& dict, std::string_view key) {
  if (!dict.index.empty()) {
    return find_indexed(runtime, dict, hash_bytes(key), [key](const Value& other) {
      return other.is_string() && other.bytes() == key;
    });
  }
  for (const DictObject::Entry& entry : dict.entries) {
    if (entry.key.is_string() && entry.key.bytes() == key) return &entry.value;
  }
  return nullptr;
}

const Value* find(Runtime& runtime, const DictObject& dict, const Value& key) {
  if (key.is_string()) return find(runtime, dict, key.bytes());
  const std::uint64_t hash = hash_of(runtime, key);  // refuses an unhashable key in any case
  const auto matches = [&](const Value& other) { return equal(runtime, other, key); };
  if (!dict.index.empty()) return find_indexed(runtime, dict, hash, matches);
  for (const DictObject::Entry& entry : dict.entries) {
    if (matches(entry.key)) return &entry.value;
  }
  return nullptr;
}

bool is_hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kRange:
    case Kind::kDict:
    case Kind::kDictView:
      return false;
    case Kind::kTuple:
      return std::all_of(value.items().begin(), value.items().end(), is_hashable);
    default:
      return true;
  }
}

std::uint64_t hash_of(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<std::uint64_t>(value.kind());
    case Kind::kBool:
    case Kind::kInteger:
      return static_cast<std::uint64_t>(value.as_integer());
    case Kind::kReal:
      return hash_real(value.as_real());
    case Kind::kString:
      runtime.spend_bytes(value.bytes().size());
      return hash_bytes(value.bytes());
    case Kind::kTuple: {
      std::uint64_t hash = value.items().size();
      runtime.spend(value.items().size());
      for (const Value& item : value.items()) hash = mix(hash, hash_of(runtime, item));
      return hash;
    }
    case Kind::kList:
    case Kind::kRange:  // hashable in Python, never a key in a template
    case Kind::kDict:
    case Kind::kDictView:
      runtime.fail_type("use as a key", value);
    case Kind::kFunction:
      return std::hash<const void*>()(&value.as_function());
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kMethod:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return std::hash<const void*>()(value.object());
  }
  return 0;
}

}  // namespace ft::text::jinja
