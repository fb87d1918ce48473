// Template source to syntax tree. Jinja's statements as far as chat templates use them: if, for
// (with filter, else, recursive), set, macro, call, filter, with, print, raw, break, continue, and
// Hugging Face's generation.
#pragma once

#include "text/jinja/statement.h"

#include <memory>
#include <string_view>

namespace ft::text::jinja {

/// Throws InvalidInput with the line for a syntax error or a statement that is not supported
/// (extends, include, import, block, autoescape, do, trans).
std::unique_ptr<TemplateNode> parse_template(std::string_view source);

}  // namespace ft::text::jinja
