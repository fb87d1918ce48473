// Lines for a person.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {

/// Writes to standard error. Nobody may be there to read it: a failure is ignored.
template <typename... T>
void print_message(fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace ft::apps
