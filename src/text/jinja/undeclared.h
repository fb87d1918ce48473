// Which special names (loop, caller, kwargs, varargs) a body reads before anything in it assigns
// them.
#pragma once

#include "text/jinja/statement.h"

#include <set>
#include <string>

namespace ft::text::jinja {

/// Those of `names` that `body`, nested blocks included, reads first. In the order of the text.
std::set<std::string> undeclared_names(const Body& body, std::set<std::string> names);

}  // namespace ft::text::jinja
