// Gives every variable of a parsed template its place.
#pragma once

#include "text/jinja/statement.h"

namespace ft::text::jinja {

/// Fills in the slots and layouts of the tree. Throws InvalidInput for an unknown filter or test
/// (unless an `if` stands directly around it; then only reaching it is an error), an assignment to
/// `loop` within a loop, a macro parameter `caller` without default.
void resolve_scopes(TemplateNode& root);

}  // namespace ft::text::jinja
