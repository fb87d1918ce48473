// Untrusted text on its way to a terminal: what a model wrote must not move a cursor, set a title
// or reverse the order of what is read.
#pragma once

#include <string>
#include <string_view>

namespace ft::apps {

/// `text` with everything that a terminal obeys made visible: control characters (newline and tab
/// apart), line and paragraph separators and bidirectional controls as \xNN per byte, invalid UTF-8
/// as U+FFFD. A piece that ends inside a character has that part replaced too.
std::string for_terminal(std::string_view text);

}  // namespace ft::apps
