// Calls of an Interpreter: functions, methods, macros, recursive loops.
#include "text/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {
namespace {

/// Takes the argument `name` out; missing if there is none.
Value take_named(Arguments& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.named.begin(),
                                  arguments.named.end(),
                                  [name](const auto& argument) { return argument.first == name; });
  if (found == arguments.named.end()) return {};
  Value value = std::move(found->second);
  arguments.named.erase(found);
  return value;
}

std::string label(const MacroNode& node) {
  return node.name.empty() ? "caller()" : fmt::format("macro '{}'", node.name);
}

}  // namespace

Value Interpreter::call(const Value& callee, Arguments arguments) {
  switch (callee.kind()) {
    case Kind::kFunction:
      return callee.as_function().call(runtime_, arguments);
    case Kind::kMethod: {
      const auto& bound = callee.as<MethodObject>();
      return bound.method->call(runtime_, bound.self, arguments);
    }
    case Kind::kMacro:
      return call_macro(callee.as<MacroObject>(), std::move(arguments));
    case Kind::kLoop:
      return call_loop(callee, arguments);
    case Kind::kJoiner: {
      auto& joiner = callee.as<JoinerObject>();
      const Bound bound(runtime_, "joiner", arguments, {});
      return std::exchange(joiner.is_used, true) ? joiner.separator : runtime_.string("");
    }
    default:
      runtime_.fail_type("a call", callee);
  }
}

Value Interpreter::call_loop(const Value& loop, const Arguments& arguments) {
  const Bound bound(runtime_, "loop()", arguments, {"iterable"}, 1);
  const auto& object = loop.as<LoopObject>();
  if (object.recursive_node == nullptr) {
    runtime_.fail("loop() needs a for loop that is marked 'recursive'");
  }
  return render_recursive(*object.recursive_node, bound[0], *object.closure, object.depth0() + 1);
}

Value Interpreter::call_macro(const MacroObject& macro, Arguments arguments) {
  const Runtime::Level level(runtime_);
  const MacroNode& node = *macro.node;
  std::unique_ptr<Scope> scope = make_scope(node.n_slots, macro.closure);
  bind_parameters(node, arguments, *scope);
  MarkedText text;
  const Redirect redirect(*this, text);
  enter(node.layout, *scope);
  fill_defaults(node, *scope);
  execute(node.body, *scope);
  retire(std::move(scope));
  return runtime_.string(std::move(text));
}

void Interpreter::bind_parameters(const MacroNode& node, Arguments& arguments, Scope& scope) {
  const std::size_t n_positional = std::min(arguments.positional.size(), node.parameters.size());
  bool has_caller = false;
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const MacroNode::Parameter& parameter = node.parameters[i];
    scope.slots[parameter.slot] =
        i < n_positional ? arguments.positional[i] : take_named(arguments, parameter.name);
    has_caller = has_caller || parameter.name == "caller";
  }
  arguments.positional.erase(
      arguments.positional.begin(),
      arguments.positional.begin() + static_cast<std::ptrdiff_t>(n_positional));
  bind_implicit(node, arguments, has_caller, scope);
}

void Interpreter::bind_implicit(const MacroNode& node,
                                Arguments& arguments,
                                bool has_caller,
                                Scope& scope) {
  if (node.caller_slot && !has_caller) {
    Value caller = take_named(arguments, "caller");
    if (caller.is(Kind::kMissing) || caller.is(Kind::kNone)) {
      caller = runtime_.undefined("no caller is defined");
    }
    scope.slots[*node.caller_slot] = std::move(caller);
  }
  if (node.kwargs_slot) {
    std::vector<DictObject::Entry> entries;
    for (auto& [name, value] : arguments.named) {
      entries.push_back({runtime_.string(name), std::move(value)});
    }
    scope.slots[*node.kwargs_slot] = runtime_.dict(std::move(entries));
  } else if (!arguments.named.empty()) {
    runtime_.fail(
        fmt::format("{} has no parameter '{}'", label(node), arguments.named.front().first));
  }
  if (node.varargs_slot) {
    scope.slots[*node.varargs_slot] = runtime_.tuple(std::move(arguments.positional));
  } else if (!arguments.positional.empty()) {
    runtime_.fail(
        fmt::format("{} takes at most {} arguments", label(node), node.parameters.size()));
  }
}

void Interpreter::fill_defaults(const MacroNode& node, Scope& scope) {
  for (const MacroNode::Parameter& parameter : node.parameters) {
    if (!scope.slots[parameter.slot].is(Kind::kMissing)) continue;
    Value value =
        parameter.default_value != nullptr
            ? evaluate(*parameter.default_value, scope)
            : runtime_.undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    scope.slots[parameter.slot] = std::move(value);
  }
}

Value macro_property(Runtime& runtime, const MacroObject& macro, std::string_view name) {
  const MacroNode& node = *macro.node;
  if (name == "name") return node.name.empty() ? Value::none() : runtime.string(node.name);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& parameter : node.parameters) names.push_back(runtime.string(parameter.name));
    return runtime.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::boolean(node.kwargs_slot.has_value());
  if (name == "catch_varargs") return Value::boolean(node.varargs_slot.has_value());
  if (name == "caller") return Value::boolean(node.reads_caller);
  return {};
}

std::string macro_text(const MacroObject& macro) {
  return macro.node->name.empty() ? "<Macro anonymous>"
                                  : fmt::format("<Macro '{}'>", macro.node->name);
}

}  // namespace ft::text::jinja
