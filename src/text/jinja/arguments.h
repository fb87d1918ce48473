// The arguments of a call, and how a built-in function takes them.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find_named(std::string_view name) const;
};

/// Arguments in the order of a function's parameters; what was not given is missing.
class Bound {
 public:
  /// `function` names the callee in messages: "filter 'join'". Throws InvalidInput for too many
  /// arguments, unknown or repeated names, and for one of the first n_required that is not given.
  Bound(Runtime& runtime,
        std::string_view function,
        const Arguments& arguments,
        std::initializer_list<std::string_view> parameters,
        std::size_t n_required = 0);

  const Value& operator[](std::size_t i) const { return values_[i]; }
  bool has(std::size_t i) const { return !values_[i].is(Kind::kMissing); }
  /// As has(), but an explicit none counts as not given.
  bool has_value(std::size_t i) const { return has(i) && !values_[i].is(Kind::kNone); }

  // A typed argument, or `fallback` if it is not given. A wrong type throws InvalidInput naming
  // function and parameter.
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i, bool fallback) const;
  /// Must be given.
  const MarkedText& text(std::size_t i) const;

 private:
  [[noreturn]] void fail_argument(std::size_t i, std::string_view expected) const;

  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<Value> values_;
};

}  // namespace ft::text::jinja
