#include "text/jinja/undeclared.h"

#include <utility>

namespace ft::text::jinja {
namespace {

class Search {
 public:
  explicit Search(std::set<std::string> names) : names_(std::move(names)) {}

  void visit(const Body& body) {
    for (const auto& statement : body) visit(*statement);
  }

  std::set<std::string> take() { return std::move(found_); }

 private:
  void visit(Expr& expr) {
    if (expr.kind == ExprKind::kName) {
      const std::string& name = static_cast<Name&>(expr).name;
      if (names_.count(name) > 0) found_.insert(name);
    }
    visit_children(expr, [this](Expr& child) { visit(child); });
  }

  void visit(const ExprPtr& expr) {
    if (expr != nullptr) visit(*expr);
  }

  void assign(const Target& target) {
    for (const Target& part : target.parts) assign(part);
    if (!target.is_tuple && target.attribute.empty()) names_.erase(target.name);
  }

  void visit(const MacroNode& macro) {
    for (const auto& parameter : macro.parameters) names_.erase(parameter.name);
    for (const auto& parameter : macro.parameters) visit(parameter.default_value);
    visit(macro.body);
  }

  void visit(const If& node) {
    for (const If::Branch& branch : node.branches) {
      visit(branch.test);
      visit(branch.body);
    }
    visit(node.otherwise);
  }

  void visit(const For& node) {
    assign(node.target);
    visit(node.iterable);
    visit(node.body);
    visit(node.otherwise);
    visit(node.filter);
  }

  void visit(const With& node) {
    for (const auto& [target, value] : node.values) assign(target);
    for (const auto& [target, value] : node.values) visit(value);
    visit(node.body);
  }

  void visit(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::kText:
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        return;
      case StatementKind::kPrint:
        return visit(static_cast<const Print&>(statement).value);
      case StatementKind::kIf:
        return visit(static_cast<const If&>(statement));
      case StatementKind::kFor:
        return visit(static_cast<const For&>(statement));
      case StatementKind::kSet:
        assign(static_cast<const Set&>(statement).target);
        return visit(static_cast<const Set&>(statement).value);
      case StatementKind::kSetBlock:
        assign(static_cast<const SetBlock&>(statement).target);
        visit(static_cast<const SetBlock&>(statement).filter);
        return visit(static_cast<const SetBlock&>(statement).body);
      case StatementKind::kMacro:
        return visit(static_cast<const MacroNode&>(statement));
      case StatementKind::kCallBlock:
        visit(static_cast<const CallBlock&>(statement).call);
        return visit(*static_cast<const CallBlock&>(statement).caller);
      case StatementKind::kFilterBlock:
        visit(static_cast<const FilterBlock&>(statement).body);
        return visit(static_cast<const FilterBlock&>(statement).filter);
      case StatementKind::kWith:
        return visit(static_cast<const With&>(statement));
    }
  }

  std::set<std::string> names_;  // still of interest
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> undeclared_names(const Body& body, std::set<std::string> names) {
  Search search(std::move(names));
  search.visit(body);
  return search.take();
}

}  // namespace ft::text::jinja
