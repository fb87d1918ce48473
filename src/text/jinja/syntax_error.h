// The one wording of errors in a template's text.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <utility>

namespace ft::text::jinja {

/// Throws InvalidInput: "chat template, line 7: <message>".
template <typename... Args>
[[noreturn]] void fail_syntax(std::uint32_t line,
                              fmt::format_string<Args...> format,
                              Args&&... args) {
  fail("chat template, line {}: {}", line, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ft::text::jinja
