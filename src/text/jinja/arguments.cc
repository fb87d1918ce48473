#include "text/jinja/arguments.h"

#include <algorithm>

#include <fmt/format.h>

namespace ft::text::jinja {

const Value* Arguments::find_named(std::string_view name) const {
  const auto found =
      std::find_if(named.begin(), named.end(), [name](const auto& n) { return n.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

Bound::Bound(Runtime& runtime,
             std::string_view function,
             const Arguments& arguments,
             std::initializer_list<std::string_view> parameters,
             std::size_t n_required)
    : runtime_(runtime),
      function_(function),
      parameters_(parameters),
      values_(arguments.positional) {
  if (values_.size() > parameters_.size()) {
    runtime.fail(fmt::format("{} takes at most {} arguments, {} are given",
                             function,
                             parameters_.size(),
                             values_.size()));
  }
  values_.resize(parameters_.size());
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::find(parameters_.begin(), parameters_.end(), name);
    if (parameter == parameters_.end()) {
      runtime.fail(fmt::format("{} has no parameter '{}'", function, name));
    }
    Value& slot = values_[static_cast<std::size_t>(parameter - parameters_.begin())];
    if (!slot.is(Kind::kMissing)) {
      runtime.fail(fmt::format("{} is given '{}' twice", function, name));
    }
    slot = value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (!has(i)) {
      runtime.fail(fmt::format("{} needs its argument '{}'", function, parameters_[i]));
    }
  }
}

void Bound::fail_argument(std::size_t i, std::string_view expected) const {
  if (values_[i].is(Kind::kUndefined)) {
    runtime_.fail_type(fmt::format("argument '{}' of {}", parameters_[i], function_), values_[i]);
  }
  runtime_.fail(fmt::format("argument '{}' of {} is {}, expected {}",
                            parameters_[i],
                            function_,
                            kind_name(values_[i].kind()),
                            expected));
}

std::int64_t Bound::integer(std::size_t i, std::int64_t fallback) const {
  if (!has(i)) return fallback;
  if (!values_[i].is_integral()) fail_argument(i, "an integer");
  return values_[i].as_integer();
}

bool Bound::truth(std::size_t i, bool fallback) const {
  return has(i) ? is_true(values_[i]) : fallback;
}

const MarkedText& Bound::text(std::size_t i) const {
  if (!values_[i].is_string()) fail_argument(i, "a string");
  return values_[i].text();
}

}  // namespace ft::text::jinja
