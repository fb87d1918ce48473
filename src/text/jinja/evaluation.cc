// The expressions of an Interpreter.
#include "base/error.h"
#include "text/jinja/access.h"
#include "text/jinja/dict.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/python_text.h"

#include <utility>

#include <fmt/format.h>

namespace ft::text::jinja {

Value Interpreter::evaluate(const Expr& expr, Scope& scope) {
  runtime_.spend(1);
  if (expr.kind == ExprKind::kLiteral) return static_cast<const Literal&>(expr).value;
  if (expr.kind == ExprKind::kName) return evaluate_name(static_cast<const Name&>(expr), scope);
  const Runtime::Level level(runtime_);
  runtime_.set_line(expr.line);
  switch (expr.kind) {
    case ExprKind::kLiteral:
    case ExprKind::kName:
      break;
    case ExprKind::kList:
    case ExprKind::kTuple:
      return evaluate_sequence(static_cast<const Sequence&>(expr), scope);
    case ExprKind::kConcat:
      return evaluate_concat(static_cast<const Sequence&>(expr), scope);
    case ExprKind::kDict:
      return evaluate_dict(static_cast<const DictExpr&>(expr), scope);
    case ExprKind::kNot:
      return Value::boolean(!is_true(evaluate(*static_cast<const Unary&>(expr).operand, scope)));
    case ExprKind::kNegate:
      return negated(runtime_, evaluate(*static_cast<const Unary&>(expr).operand, scope));
    case ExprKind::kAffirm:
      return affirmed(runtime_, evaluate(*static_cast<const Unary&>(expr).operand, scope));
    case ExprKind::kArithmetic: {
      const auto& node = static_cast<const Binary&>(expr);
      const Value left = evaluate(*node.left, scope);
      return arithmetic(runtime_, node.op, left, evaluate(*node.right, scope));
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_logic(static_cast<const Binary&>(expr), scope);
    case ExprKind::kCompare:
      return evaluate_compare(static_cast<const Compare&>(expr), scope);
    case ExprKind::kConditional:
      return evaluate_conditional(static_cast<const Conditional&>(expr), scope);
    case ExprKind::kAttribute: {
      const auto& node = static_cast<const AttributeExpr&>(expr);
      return attribute(runtime_, evaluate(*node.object, scope), node.name);
    }
    case ExprKind::kItem: {
      const auto& node = static_cast<const ItemExpr&>(expr);
      const Value object = evaluate(*node.object, scope);
      return item(runtime_, object, evaluate(*node.key, scope));
    }
    case ExprKind::kSlice:
      return evaluate_slice(static_cast<const SliceExpr&>(expr), scope);
    case ExprKind::kCall:
      return evaluate_call(static_cast<const Call&>(expr), scope);
    case ExprKind::kFilter:
      return evaluate_filter(static_cast<const FilterExpr&>(expr), scope);
    case ExprKind::kTest:
      return evaluate_test(static_cast<const TestExpr&>(expr), scope);
  }
  return {};
}

Value Interpreter::evaluate_name(const Name& name, Scope& scope) {
  const Value& value = slot(name.ref, scope);
  if (!value.is(Kind::kMissing)) return value;
  return runtime_.undefined(fmt::format("'{}' is undefined", name.name));
}

Value Interpreter::evaluate_sequence(const Sequence& node, Scope& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExprPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return node.kind == ExprKind::kList ? runtime_.list(std::move(items))
                                      : runtime_.tuple(std::move(items));
}

Value Interpreter::evaluate_concat(const Sequence& node, Scope& scope) {
  MarkedText text;
  for (const ExprPtr& item : node.items) append_str(runtime_, text, evaluate(*item, scope));
  return runtime_.string(std::move(text));
}

Value Interpreter::evaluate_dict(const DictExpr& node, Scope& scope) {
  std::vector<DictObject::Entry> entries;
  entries.reserve(node.entries.size());
  for (const auto& [key, value] : node.entries) {
    Value evaluated_key = evaluate(*key, scope);
    entries.push_back({std::move(evaluated_key), evaluate(*value, scope)});
  }
  return runtime_.dict(std::move(entries));
}

Value Interpreter::evaluate_logic(const Binary& node, Scope& scope) {
  Value left = evaluate(*node.left, scope);
  const bool is_decided = is_true(left) == (node.kind == ExprKind::kOr);
  return is_decided ? left : evaluate(*node.right, scope);
}

Value Interpreter::evaluate_compare(const Compare& node, Scope& scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand, scope);
    if (!compare(runtime_, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_conditional(const Conditional& node, Scope& scope) {
  if (is_true(evaluate(*node.test, scope))) return evaluate(*node.then, scope);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise, scope);
  return runtime_.undefined("the inline if is false and has no else");
}

Value Interpreter::evaluate_slice(const SliceExpr& node, Scope& scope) {
  const auto bound = [&](const ExprPtr& expr) {
    return expr == nullptr ? Value() : evaluate(*expr, scope);
  };
  const Value object = evaluate(*node.object, scope);
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  return slice(runtime_, object, start, stop, bound(node.step));
}

Arguments Interpreter::evaluate_arguments(const ArgumentList& list, Scope& scope) {
  Arguments arguments;
  arguments.positional.reserve(list.positional.size());
  for (const ExprPtr& argument : list.positional) {
    arguments.positional.push_back(evaluate(*argument, scope));
  }
  for (const auto& [name, argument] : list.named) {
    arguments.named.emplace_back(name, evaluate(*argument, scope));
  }
  if (list.more_positional != nullptr) {
    Cursor more(runtime_, evaluate(*list.more_positional, scope));
    Value argument;
    while (more.next(argument)) arguments.positional.push_back(argument);
  }
  if (list.more_named != nullptr) {
    const Value more = evaluate(*list.more_named, scope);
    if (!more.is(Kind::kDict)) runtime_.fail_type("'**'", more);
    for (const DictObject::Entry& entry : more.as_dict().entries) {
      if (!entry.key.is_string()) runtime_.fail_type("an argument's name", entry.key);
      runtime_.spend(arguments.named.size() + 1);  // they are compared one by one
      if (arguments.find_named(entry.key.bytes()) != nullptr) {
        runtime_.fail(fmt::format("argument '{}' is given twice", entry.key.bytes()));
      }
      arguments.named.emplace_back(entry.key.bytes(), entry.value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Call& node, Scope& scope, const Value* caller) {
  const auto arguments = [&] {
    Arguments out = evaluate_arguments(node.arguments, scope);
    if (caller != nullptr) out.named.emplace_back("caller", *caller);
    runtime_.set_line(node.line);
    return out;
  };
  if (node.callee->kind == ExprKind::kAttribute) {
    // A method of a value is called without making an object of it first.
    const auto& callee = static_cast<const AttributeExpr&>(*node.callee);
    const Value self = evaluate(*callee.object, scope);
    if (const Method* method = find_method(self.kind(), callee.name)) {
      return method->call(runtime_, self, arguments());
    }
    const Value function = attribute(runtime_, self, callee.name);
    return call(function, arguments());
  }
  const Value function = evaluate(*node.callee, scope);
  return call(function, arguments());
}

Value Interpreter::evaluate_filter(const FilterExpr& node, Scope& scope, const Value* block_text) {
  Value input;
  if (node.input == nullptr) {
    FT_CHECK(block_text != nullptr);
    input = *block_text;
  } else if (block_text != nullptr) {
    // A chain of filters over a block: the innermost one takes its text.
    input = evaluate_filter(static_cast<const FilterExpr&>(*node.input), scope, block_text);
  } else {
    input = evaluate(*node.input, scope);
  }
  const Arguments arguments = evaluate_arguments(node.arguments, scope);
  runtime_.set_line(node.line);
  if (node.filter == nullptr) runtime_.fail(fmt::format("unknown filter '{}'", node.name));
  return node.filter->call(runtime_, input, arguments);
}

Value Interpreter::evaluate_test(const TestExpr& node, Scope& scope) {
  const Value input = evaluate(*node.input, scope);
  const Arguments arguments = evaluate_arguments(node.arguments, scope);
  runtime_.set_line(node.line);
  if (node.test == nullptr) runtime_.fail(fmt::format("unknown test '{}'", node.name));
  return Value::boolean(node.test->call(runtime_, input, arguments));
}

}  // namespace ft::text::jinja
