#include "text/jinja/scope_resolver.h"

#include "text/jinja/symbols.h"
#include "text/jinja/syntax_error.h"
#include "text/jinja/undeclared.h"

#include <set>
#include <string>
#include <utility>

namespace ft::text::jinja {
namespace {

// ------------------------------------------------------------------ which names a frame uses

void collect(Symbols& symbols, Expr& expr) {
  if (expr.kind == ExprKind::kName) symbols.load(static_cast<Name&>(expr).name);
  visit_children(expr, [&symbols](Expr& child) { collect(symbols, child); });
}

void collect_target(Symbols& symbols, const Target& target) {
  if (target.is_tuple) {
    for (const Target& part : target.parts) collect_target(symbols, part);
  } else if (target.attribute.empty()) {
    symbols.store(target.name);
  } else {
    symbols.load(target.name);
  }
}

void declare_target(Symbols& symbols, const Target& target) {
  if (!target.is_tuple) return symbols.declare_parameter(target.name);
  for (const Target& part : target.parts) declare_target(symbols, part);
}

void collect(Symbols& symbols, const Body& body);

void collect_if(Symbols& symbols, If& node) {
  collect(symbols, *node.branches.front().test);
  std::vector<Symbols> branches(3, Symbols::branch_of(symbols));
  collect(branches[0], node.branches.front().body);
  for (std::size_t i = 1; i < node.branches.size(); ++i) {
    // Each elif counts as an if of its own inside the second branch.
    collect(branches[1], *node.branches[i].test);
    std::vector<Symbols> inner(3, Symbols::branch_of(branches[1]));
    collect(inner[0], node.branches[i].body);
    branches[1].merge(inner);
  }
  collect(branches[2], node.otherwise);
  symbols.merge(branches);
}

/// Names used by a statement in the frame it stands in; what has a frame of its own is left to
/// that.
void collect(Symbols& symbols, Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText:
    case StatementKind::kBreak:
    case StatementKind::kContinue:
      return;
    case StatementKind::kPrint:
      return collect(symbols, *static_cast<Print&>(statement).value);
    case StatementKind::kIf:
      return collect_if(symbols, static_cast<If&>(statement));
    case StatementKind::kFor:
      return collect(symbols, *static_cast<For&>(statement).iterable);
    case StatementKind::kSet:
      collect(symbols, *static_cast<Set&>(statement).value);
      return collect_target(symbols, static_cast<Set&>(statement).target);
    case StatementKind::kSetBlock:
      return collect_target(symbols, static_cast<SetBlock&>(statement).target);
    case StatementKind::kMacro:
      return symbols.store(static_cast<MacroNode&>(statement).name);
    case StatementKind::kCallBlock:
      if (auto& call = static_cast<CallBlock&>(statement).call) collect(symbols, *call);
      return;
    case StatementKind::kFilterBlock:
      return collect(symbols, *static_cast<FilterBlock&>(statement).filter);
    case StatementKind::kWith:
      for (auto& [target, value] : static_cast<With&>(statement).values) collect(symbols, *value);
      return;
  }
}

void collect(Symbols& symbols, const Body& body) {
  for (const auto& statement : body) collect(symbols, *statement);
}

// ------------------------------------------------------------------ where they are

class Resolver {
 public:
  void resolve_template(TemplateNode& root) {
    FunctionSlots function(0);
    Symbols symbols(nullptr, function);
    collect(symbols, root.body);
    resolve(symbols, root.body, Unknown::kRefused);
    root.layout = symbols.layout();
    root.n_slots = function.n_slots();
  }

 private:
  /// What an unknown filter or test is: refused at once, or (right inside an `if`) an error when it
  /// is reached.
  enum class Unknown : std::uint8_t { kRefused, kTolerated };

  void resolve(const Symbols& symbols, Expr& expr, Unknown unknown) {
    if (expr.kind == ExprKind::kName) {
      auto& name = static_cast<Name&>(expr);
      name.ref = symbols.ref(name.name);
    }
    if (unknown == Unknown::kRefused) refuse_unknown(expr);
    if (expr.kind == ExprKind::kConditional) unknown = Unknown::kTolerated;
    visit_children(expr, [&](Expr& child) { resolve(symbols, child, unknown); });
  }

  static void refuse_unknown(const Expr& expr) {
    if (expr.kind == ExprKind::kFilter) {
      const auto& filter = static_cast<const FilterExpr&>(expr);
      if (filter.filter == nullptr) fail_syntax(expr.line, "unknown filter '{}'", filter.name);
    } else if (expr.kind == ExprKind::kTest) {
      const auto& test = static_cast<const TestExpr&>(expr);
      if (test.test == nullptr) fail_syntax(expr.line, "unknown test '{}'", test.name);
    }
  }

  void resolve_target(const Symbols& symbols, Target& target) const {
    for (Target& part : target.parts) resolve_target(symbols, part);
    if (target.is_tuple) return;
    if (n_loops_ > 0 && target.name == "loop" && target.attribute.empty()) {
      fail_syntax(target.line, "'loop' cannot be assigned to inside of a loop");
    }
    target.ref = symbols.ref(target.name);
  }

  void resolve(const Symbols& symbols, Body& body, Unknown unknown) {
    for (auto& statement : body) resolve(symbols, *statement, unknown);
  }

  void resolve(const Symbols& symbols, Statement& statement, Unknown unknown) {
    switch (statement.kind) {
      case StatementKind::kText:
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        return;
      case StatementKind::kPrint:
        return resolve(symbols, *static_cast<Print&>(statement).value, unknown);
      case StatementKind::kIf:
        return resolve_if(symbols, static_cast<If&>(statement));
      case StatementKind::kFor:
        return resolve_for(symbols, static_cast<For&>(statement), unknown);
      case StatementKind::kSet:
        resolve_target(symbols, static_cast<Set&>(statement).target);
        return resolve(symbols, *static_cast<Set&>(statement).value, unknown);
      case StatementKind::kSetBlock:
        return resolve_set_block(symbols, static_cast<SetBlock&>(statement));
      case StatementKind::kMacro: {
        auto& macro = static_cast<MacroNode&>(statement);
        resolve_macro(symbols, macro);
        macro.ref = symbols.ref(macro.name);
        return;
      }
      case StatementKind::kCallBlock: {
        auto& block = static_cast<CallBlock&>(statement);
        resolve_macro(symbols, *block.caller);
        if (block.call != nullptr) resolve(symbols, *block.call, unknown);
        return;
      }
      case StatementKind::kFilterBlock:
        return resolve_filter_block(symbols, static_cast<FilterBlock&>(statement));
      case StatementKind::kWith:
        return resolve_with(symbols, static_cast<With&>(statement), unknown);
    }
  }

  void resolve_if(const Symbols& symbols, If& node) {
    for (If::Branch& branch : node.branches) {
      resolve(symbols, *branch.test, Unknown::kTolerated);
      resolve(symbols, branch.body, Unknown::kTolerated);
    }
    resolve(symbols, node.otherwise, Unknown::kTolerated);
  }

  void resolve_for(const Symbols& symbols, For& node, Unknown unknown) {
    ++n_loops_;
    FunctionSlots own_function(symbols.function().depth() + 1);
    FunctionSlots& function = node.is_recursive ? own_function : symbols.function();
    Symbols body(&symbols, function);
    const bool reads_loop = !undeclared_names(node.body, {"loop"}).empty();
    if (reads_loop || node.is_recursive) body.declare_parameter("loop");
    declare_target(body, node.target);
    collect(body, node.body);
    Symbols otherwise(&symbols, function);
    collect(otherwise, node.otherwise);

    resolve(symbols, *node.iterable, unknown);
    if (node.filter != nullptr) resolve_loop_filter(symbols, node);
    resolve_target(body, node.target);
    if (reads_loop || node.is_recursive) node.loop_slot = body.ref("loop").slot;
    resolve(body, node.body, Unknown::kRefused);
    resolve(otherwise, node.otherwise, Unknown::kRefused);
    node.body_layout = body.layout();
    node.else_layout = otherwise.layout();
    node.n_slots = own_function.n_slots();
    --n_loops_;
  }

  void resolve_loop_filter(const Symbols& symbols, For& node) {
    FunctionSlots function(symbols.function().depth() + 1);
    Symbols filter(&symbols, function);
    declare_target(filter, node.target);
    collect(filter, *node.filter);
    node.filter_target = node.target;
    resolve_target(filter, node.filter_target);
    resolve(filter, *node.filter, Unknown::kRefused);
    node.filter_layout = filter.layout();
    node.n_filter_slots = function.n_slots();
  }

  void resolve_set_block(const Symbols& symbols, SetBlock& node) {
    Symbols inner(&symbols, symbols.function());
    collect(inner, node.body);
    if (node.filter != nullptr) collect(inner, *node.filter);
    resolve(inner, node.body, Unknown::kRefused);
    if (node.filter != nullptr) resolve(inner, *node.filter, Unknown::kRefused);
    resolve_target(symbols, node.target);
    node.layout = inner.layout();
  }

  void resolve_filter_block(const Symbols& symbols, FilterBlock& node) {
    Symbols inner(&symbols, symbols.function());
    collect(inner, node.body);
    collect(inner, *node.filter);
    resolve(inner, node.body, Unknown::kRefused);
    resolve(inner, *node.filter, Unknown::kRefused);
    node.layout = inner.layout();
  }

  void resolve_with(const Symbols& symbols, With& node, Unknown unknown) {
    Symbols inner(&symbols, symbols.function());
    for (auto& [target, value] : node.values) declare_target(inner, target);
    collect(inner, node.body);
    for (auto& [target, value] : node.values) {
      // The targets are parameters, so the name `loop` is allowed here.
      const std::size_t n_loops = std::exchange(n_loops_, 0);
      resolve_target(inner, target);
      n_loops_ = n_loops;
      resolve(symbols, *value, unknown);
    }
    resolve(inner, node.body, Unknown::kRefused);
    node.layout = inner.layout();
  }

  void resolve_macro(const Symbols& symbols, MacroNode& node) {
    FunctionSlots function(symbols.function().depth() + 1);
    Symbols inner(&symbols, function);
    for (MacroNode::Parameter& parameter : node.parameters) inner.declare_parameter(parameter.name);
    declare_implicit(inner, node);
    for (MacroNode::Parameter& parameter : node.parameters) {
      if (parameter.default_value != nullptr) collect(inner, *parameter.default_value);
    }
    collect(inner, node.body);
    for (MacroNode::Parameter& parameter : node.parameters) {
      parameter.slot = inner.ref(parameter.name).slot;
      if (parameter.default_value != nullptr) {
        resolve(inner, *parameter.default_value, Unknown::kRefused);
      }
    }
    resolve(inner, node.body, Unknown::kRefused);
    node.layout = inner.layout();
    node.n_slots = function.n_slots();
  }

  /// caller, kwargs and varargs, if the body reads them without declaring them.
  static void declare_implicit(Symbols& symbols, MacroNode& node) {
    std::set<std::string> read = undeclared_names(node.body, {"caller", "kwargs", "varargs"});
    node.reads_caller = read.count("caller") > 0;
    for (const MacroNode::Parameter& parameter : node.parameters) {
      if (read.erase(parameter.name) > 0 && parameter.name == "caller" &&
          parameter.default_value == nullptr) {
        fail_syntax(node.line, "the macro parameter 'caller' needs a default");
      }
    }
    const auto declare = [&](const char* name, std::optional<std::uint32_t>& slot) {
      if (read.count(name) == 0) return;
      symbols.declare_parameter(name);
      slot = symbols.ref(name).slot;
    };
    declare("caller", node.caller_slot);
    declare("kwargs", node.kwargs_slot);
    declare("varargs", node.varargs_slot);
  }

  std::size_t n_loops_ = 0;  // loops around here
};

}  // namespace

void resolve_scopes(TemplateNode& root) {
  Resolver().resolve_template(root);
}

}  // namespace ft::text::jinja
