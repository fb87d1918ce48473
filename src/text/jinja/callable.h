// The built-in functions, filters, tests and methods: tables from a name to the code behind it.
#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <string_view>

namespace ft::text::jinja {

/// A global function: range, namespace, dict ...
struct Function {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Arguments& arguments);
};

/// A method of a type.
struct Method {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Value& self, const Arguments& arguments);
};

/// `input | name(arguments)`.
struct Filter {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

/// `input is name(arguments)`.
struct Test {
  std::string_view name;
  bool (*call)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

struct MethodObject final : Object {
  Value self;
  const Method* method = nullptr;
};

// Lookup by name; nullptr if there is none.
const Function* find_function(std::string_view name);
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
/// The method `name` of values of this kind.
const Method* find_method(Kind kind, std::string_view name);
/// Methods of Python's types that would change a value in place: hidden, as in Jinja's immutable
/// sandbox, and hiding an item of the same name.
bool is_forbidden_method(Kind kind, std::string_view name);

}  // namespace ft::text::jinja
