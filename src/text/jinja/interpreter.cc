#include "text/jinja/interpreter.h"

#include "text/jinja/python_text.h"

#include <utility>

namespace ft::text::jinja {

MarkedText Interpreter::run() {
  MarkedText text;
  const Redirect redirect(*this, text);
  const std::unique_ptr<Scope> scope = make_scope(root_.n_slots, nullptr);
  enter(root_.layout, *scope);
  execute(root_.body, *scope);
  return text;
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope) {
  const Runtime::Level level(runtime_);
  for (const auto& statement : body) {
    const Flow flow = execute(*statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Scope& scope) {
  runtime_.spend(1);
  runtime_.set_line(statement.line);
  switch (statement.kind) {
    case StatementKind::kText:
      execute_text(static_cast<const Text&>(statement));
      return Flow::kNext;
    case StatementKind::kPrint:
      execute_print(static_cast<const Print&>(statement), scope);
      return Flow::kNext;
    case StatementKind::kIf:
      return execute_if(static_cast<const If&>(statement), scope);
    case StatementKind::kFor:
      return execute_for(static_cast<const For&>(statement), scope);
    case StatementKind::kSet: {
      const auto& node = static_cast<const Set&>(statement);
      assign(node.target, evaluate(*node.value, scope), scope);
      return Flow::kNext;
    }
    case StatementKind::kSetBlock:
      return execute_set_block(static_cast<const SetBlock&>(statement), scope);
    case StatementKind::kMacro:
      execute_macro(static_cast<const MacroNode&>(statement), scope);
      return Flow::kNext;
    case StatementKind::kCallBlock:
      execute_call_block(static_cast<const CallBlock&>(statement), scope);
      return Flow::kNext;
    case StatementKind::kFilterBlock:
      return execute_filter_block(static_cast<const FilterBlock&>(statement), scope);
    case StatementKind::kWith:
      return execute_with(static_cast<const With&>(statement), scope);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::execute_text(const Text& node) {
  runtime_.reserve_text(node.text.size());
  out_->append(node.text, true);
  runtime_.check_text(out_->size());
}

void Interpreter::emit(const Value& value) {
  append_str(runtime_, *out_, value);
  runtime_.check_text(out_->size());
}

void Interpreter::execute_print(const Print& node, Scope& scope) {
  emit(evaluate(*node.value, scope));
}

Interpreter::Flow Interpreter::execute_if(const If& node, Scope& scope) {
  for (const If::Branch& branch : node.branches) {
    if (is_true(evaluate(*branch.test, scope))) return execute(branch.body, scope);
  }
  return execute(node.otherwise, scope);
}

Interpreter::Flow Interpreter::execute_set_block(const SetBlock& node, Scope& scope) {
  enter(node.layout, scope);
  MarkedText text;
  {
    const Redirect redirect(*this, text);
    // A break leaves the block in the middle: nothing is assigned then.
    const Flow flow = execute(node.body, scope);
    if (flow != Flow::kNext) return flow;
  }
  Value value = runtime_.string(std::move(text));
  if (node.filter != nullptr) {
    value = evaluate_filter(static_cast<const FilterExpr&>(*node.filter), scope, &value);
  }
  leave(node.layout, scope);
  assign(node.target, value, scope);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter_block(const FilterBlock& node, Scope& scope) {
  enter(node.layout, scope);
  MarkedText text;
  {
    const Redirect redirect(*this, text);
    const Flow flow = execute(node.body, scope);
    if (flow != Flow::kNext) return flow;
  }
  const Value value = runtime_.string(std::move(text));
  emit(evaluate_filter(static_cast<const FilterExpr&>(*node.filter), scope, &value));
  leave(node.layout, scope);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_with(const With& node, Scope& scope) {
  enter(node.layout, scope);
  for (const auto& [target, value] : node.values) assign(target, evaluate(*value, scope), scope);
  const Flow flow = execute(node.body, scope);
  leave(node.layout, scope);
  return flow;
}

void Interpreter::execute_macro(const MacroNode& node, Scope& scope) {
  MacroObject macro;
  macro.node = &node;
  macro.closure = &scope;
  capture(scope);
  slot(node.ref, scope) = runtime_.object(Kind::kMacro, macro, 0);
}

void Interpreter::execute_call_block(const CallBlock& node, Scope& scope) {
  MacroObject macro;
  macro.node = node.caller.get();
  macro.closure = &scope;
  if (node.call == nullptr) return emit(call_macro(macro, {}));
  capture(scope);
  const Value caller = runtime_.object(Kind::kMacro, macro, 0);
  emit(evaluate_call(static_cast<const Call&>(*node.call), scope, &caller));
}

}  // namespace ft::text::jinja
