// The tables behind find_method(), and a lookup for sorted tables.
#pragma once

#include "text/jinja/callable.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ft::text::jinja {

const Method* find_string_method(std::string_view name);

/// The entry of a table sorted by `name`, or nullptr.
template <typename Table>
constexpr auto find_by_name(const Table& table, std::string_view name) -> decltype(table.data()) {
  const auto* const end = table.data() + table.size();
  const auto* const found =
      std::lower_bound(table.data(), end, name, [](const auto& entry, std::string_view n) {
        return entry.name < n;
      });
  return found != end && found->name == name ? found : nullptr;
}

template <typename Table>
constexpr bool is_sorted_by_name(const Table& table) {
  for (std::size_t i = 1; i < table.size(); ++i) {
    if (!(table[i - 1].name < table[i].name)) return false;
  }
  return true;
}

}  // namespace ft::text::jinja
