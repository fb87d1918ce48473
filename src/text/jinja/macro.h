// Macros and the variables they can see.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <string>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

struct MacroNode;

/// The variables of one running macro, recursive loop or the template itself. The scopes around it
/// outlive it.
struct Scope {
  std::vector<Value> slots;
  Scope* parent = nullptr;
  bool is_captured = false;  // a macro refers to it, so it lives until the render ends
};

struct MacroObject final : Object {
  const MacroNode* node = nullptr;
  Scope* closure = nullptr;
};

/// name, arguments, catch_kwargs, catch_varargs, caller; missing for other names.
Value macro_property(Runtime& runtime, const MacroObject& macro, std::string_view name);
/// What printing a macro gives.
std::string macro_text(const MacroObject& macro);

}  // namespace ft::text::jinja
