#include "text/jinja/expression.h"

namespace ft::text::jinja {
namespace {

using Visit = FunctionRef<void(Expr&)>;

void visit_one(const ExprPtr& child, Visit visit) {
  if (child != nullptr) visit(*child);
}

void visit_all(const std::vector<ExprPtr>& children, Visit visit) {
  for (const ExprPtr& child : children) visit(*child);
}

void visit_arguments(const ArgumentList& arguments, Visit visit) {
  visit_all(arguments.positional, visit);
  for (const auto& [name, value] : arguments.named) visit(*value);
  visit_one(arguments.more_positional, visit);
  visit_one(arguments.more_named, visit);
}

void visit_binary(const Binary& binary, Visit visit) {
  visit(*binary.left);
  visit(*binary.right);
}

void visit_compare(const Compare& compare, Visit visit) {
  visit(*compare.first);
  for (const auto& [op, operand] : compare.rest) visit(*operand);
}

void visit_conditional(const Conditional& conditional, Visit visit) {
  visit(*conditional.test);
  visit(*conditional.then);
  visit_one(conditional.otherwise, visit);
}

void visit_slice(const SliceExpr& slice, Visit visit) {
  visit(*slice.object);
  for (const ExprPtr* bound : {&slice.start, &slice.stop, &slice.step}) visit_one(*bound, visit);
}

template <typename Node>
void visit_input_and_arguments(const Node& node, const ExprPtr& input, Visit visit) {
  visit_one(input, visit);
  visit_arguments(node.arguments, visit);
}

}  // namespace

void visit_children(Expr& expr, Visit visit) {
  switch (expr.kind) {
    case ExprKind::kLiteral:
    case ExprKind::kName:
      return;
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kConcat:
      return visit_all(static_cast<const Sequence&>(expr).items, visit);
    case ExprKind::kDict:
      for (const auto& [key, value] : static_cast<const DictExpr&>(expr).entries) {
        visit(*key);
        visit(*value);
      }
      return;
    case ExprKind::kNot:
    case ExprKind::kNegate:
    case ExprKind::kAffirm:
      return visit(*static_cast<const Unary&>(expr).operand);
    case ExprKind::kArithmetic:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return visit_binary(static_cast<const Binary&>(expr), visit);
    case ExprKind::kCompare:
      return visit_compare(static_cast<const Compare&>(expr), visit);
    case ExprKind::kConditional:
      return visit_conditional(static_cast<const Conditional&>(expr), visit);
    case ExprKind::kAttribute:
      return visit(*static_cast<const AttributeExpr&>(expr).object);
    case ExprKind::kItem:
      visit(*static_cast<const ItemExpr&>(expr).object);
      return visit(*static_cast<const ItemExpr&>(expr).key);
    case ExprKind::kSlice:
      return visit_slice(static_cast<const SliceExpr&>(expr), visit);
    case ExprKind::kCall: {
      const auto& call = static_cast<const Call&>(expr);
      return visit_input_and_arguments(call, call.callee, visit);
    }
    case ExprKind::kFilter: {
      const auto& filter = static_cast<const FilterExpr&>(expr);
      return visit_input_and_arguments(filter, filter.input, visit);
    }
    case ExprKind::kTest: {
      const auto& test = static_cast<const TestExpr&>(expr);
      return visit_input_and_arguments(test, test.input, visit);
    }
  }
}

}  // namespace ft::text::jinja
