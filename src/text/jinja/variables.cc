// The variables of an Interpreter: slots, frames, scopes.
#include "text/jinja/access.h"
#include "text/jinja/dict.h"
#include "text/jinja/interpreter.h"

#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {

Value& Interpreter::slot(SlotRef ref, Scope& scope) {
  Scope* owner = &scope;
  for (std::uint32_t i = 0; i < ref.n_out; ++i) owner = owner->parent;
  return owner->slots[ref.slot];
}

Value Interpreter::lookup(const std::string& name) {
  if (const Value* value = find(runtime_, variables_.as_dict(), name)) return *value;
  const Function* function = find_function(name);
  return function == nullptr ? Value() : Value::function(*function);
}

void Interpreter::enter(const FrameLayout& layout, Scope& scope) {
  for (const SlotLoad& load : layout.loads) {
    Value& target = scope.slots[load.slot];
    switch (load.from) {
      case SlotLoad::From::kRequest:
        target = lookup(load.name);
        break;
      case SlotLoad::From::kOuter:
        target = slot(load.outer, scope);
        break;
      case SlotLoad::From::kNothing:
        target = Value();
        break;
    }
  }
  runtime_.spend(layout.loads.size());
}

void Interpreter::leave(const FrameLayout& layout, Scope& scope) {
  for (const std::uint32_t owned : layout.owned_slots) scope.slots[owned] = Value();
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  runtime_.set_line(target.line);
  if (target.is_tuple) {
    const std::vector<Value> values = elements(runtime_, value);
    if (values.size() != target.parts.size()) {
      runtime_.fail(fmt::format(
          "{} values cannot be assigned to {} names", values.size(), target.parts.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i], scope);
    return;
  }
  Value& destination = slot(target.ref, scope);
  if (target.attribute.empty()) {
    destination = value;
    return;
  }
  if (!destination.is(Kind::kNamespace)) {
    runtime_.fail(fmt::format("'{}.{}' cannot be assigned to: '{}' is {}, not a namespace",
                              target.name,
                              target.attribute,
                              target.name,
                              kind_name(destination.kind())));
  }
  auto& space = destination.as<NamespaceObject>();
  for (auto& [name, member] : space.members) {
    runtime_.spend(1);
    if (name == target.attribute) {
      member = value;
      return;
    }
  }
  runtime_.spend_bytes(target.attribute.size() + sizeof space.members.front());
  space.members.emplace_back(target.attribute, value);
}

Value Interpreter::read(const Target& target, Scope& scope) {
  if (!target.is_tuple) return slot(target.ref, scope);
  std::vector<Value> parts;
  for (const Target& part : target.parts) parts.push_back(read(part, scope));
  return runtime_.tuple(std::move(parts));
}

std::unique_ptr<Scope> Interpreter::make_scope(std::size_t n_slots, Scope* parent) {
  runtime_.spend_bytes(sizeof(Scope) + n_slots * sizeof(Value));
  runtime_.spend(n_slots);
  auto scope = std::make_unique<Scope>();
  scope->slots.resize(n_slots);
  scope->parent = parent;
  return scope;
}

void Interpreter::retire(std::unique_ptr<Scope> scope) {
  if (scope->is_captured) captured_.push_back(std::move(scope));
}

void Interpreter::capture(Scope& scope) {
  for (Scope* s = &scope; s != nullptr && !s->is_captured; s = s->parent) s->is_captured = true;
}

}  // namespace ft::text::jinja
