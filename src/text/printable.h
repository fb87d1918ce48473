// Untrusted text inside an error message: one line, bounded, printable.
#pragma once

#include <string>
#include <string_view>

namespace ft::text {

/// 'text', with control characters and invalid UTF-8 as \xNN, cut behind 60 bytes ("...").
std::string printable(std::string_view text);

}  // namespace ft::text
