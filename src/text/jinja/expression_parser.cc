#include "text/jinja/expression_parser.h"

#include "text/jinja/syntax_error.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ft::text::jinja {
namespace {

template <typename Node>
std::unique_ptr<Node> make(ExprKind kind, std::uint32_t line) {
  return std::make_unique<Node>(kind, line);
}

ExprPtr make_literal(Value value, std::uint32_t line) {
  auto node = make<Literal>(ExprKind::kLiteral, line);
  node->value = std::move(value);
  return node;
}

ExprPtr make_unary(ExprKind kind, ExprPtr operand, std::uint32_t line) {
  auto node = make<Unary>(kind, line);
  note_child(*node, operand.get());
  node->operand = std::move(operand);
  return node;
}

ExprPtr make_binary(ExprKind kind, ExprPtr left, ExprPtr right, Arithmetic op = Arithmetic::kAdd) {
  auto node = make<Binary>(kind, left->line);
  note_child(*node, left.get());
  note_child(*node, right.get());
  node->op = op;
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

}  // namespace

void note_child(Expr& parent, const Expr* child) {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxTreeHeight) {
    fail_syntax(parent.line, "an expression of more than {} levels", kMaxTreeHeight);
  }
}

void note_arguments(Expr& parent, const ArgumentList& arguments) {
  for (const ExprPtr& argument : arguments.positional) note_child(parent, argument.get());
  for (const auto& argument : arguments.named) note_child(parent, argument.second.get());
  note_child(parent, arguments.more_positional.get());
  note_child(parent, arguments.more_named.get());
}

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kMaxNesting) {
    fail_syntax(parser_.tokens_.line(), "brackets or blocks nest deeper than {}", kMaxNesting);
  }
  ++parser_.nesting_;
}

ExprPtr ExpressionParser::parse() {
  return parse(Conditions::kAllowed);
}

ExprPtr ExpressionParser::parse_without_condition() {
  return parse(Conditions::kNotAllowed);
}

ExprPtr ExpressionParser::parse_tuple() {
  return parse_tuple(Conditions::kAllowed, "", false);
}

ExprPtr ExpressionParser::parse_tuple_without_condition(std::string_view end_name) {
  return parse_tuple(Conditions::kNotAllowed, end_name, false);
}

ExprPtr ExpressionParser::parse(Conditions conditions) {
  const Nesting nesting(*this);
  return conditions == Conditions::kAllowed ? parse_conditional() : parse_or();
}

bool ExpressionParser::is_tuple_end(std::string_view end_name) const {
  return tokens_.is(TokenType::kPrintEnd) || tokens_.is(TokenType::kTagEnd) ||
         tokens_.is_operator(")") || (!end_name.empty() && tokens_.is_name(end_name));
}

ExprPtr ExpressionParser::parse_tuple(Conditions conditions,
                                      std::string_view end_name,
                                      bool may_be_empty) {
  auto tuple = make<Sequence>(ExprKind::kTuple, tokens_.line());
  bool has_comma = false;
  while (!is_tuple_end(end_name)) {
    tuple->items.push_back(parse(conditions));
    note_child(*tuple, tuple->items.back().get());
    if (!tokens_.take_operator(",")) break;
    has_comma = true;
  }
  if (has_comma) return tuple;
  if (!tuple->items.empty()) return std::move(tuple->items.front());
  if (!may_be_empty) tokens_.fail_unexpected("an expression");
  return tuple;
}

ExprPtr ExpressionParser::parse_conditional() {
  ExprPtr value = parse_or();
  while (tokens_.is_name("if")) {
    auto node = make<Conditional>(ExprKind::kConditional, tokens_.take().line);
    node->then = std::move(value);
    node->test = parse_or();
    if (tokens_.take_name("else")) {
      const Nesting nesting(*this);
      node->otherwise = parse_conditional();
    }
    note_child(*node, node->then.get());
    note_child(*node, node->test.get());
    note_child(*node, node->otherwise.get());
    value = std::move(node);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (tokens_.take_name("or")) left = make_binary(ExprKind::kOr, std::move(left), parse_and());
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (tokens_.take_name("and")) {
    left = make_binary(ExprKind::kAnd, std::move(left), parse_not());
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  const std::uint32_t line = tokens_.take().line;
  return make_unary(ExprKind::kNot, parse_not(), line);
}

bool ExpressionParser::take_comparison(Comparison& op) {
  constexpr std::array<std::pair<std::string_view, Comparison>, 6> operators = {{
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  }};
  for (const auto& [text, comparison] : operators) {
    if (tokens_.take_operator(text)) {
      op = comparison;
      return true;
    }
  }
  if (tokens_.take_name("in")) {
    op = Comparison::kIn;
    return true;
  }
  const Token& following = tokens_.following();
  if (tokens_.is_name("not") && following.type == TokenType::kName && following.text == "in") {
    tokens_.take();
    tokens_.take();
    op = Comparison::kNotIn;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::parse_comparison() {
  ExprPtr first = parse_sum();
  Comparison op = Comparison::kEqual;
  if (!take_comparison(op)) return first;
  auto node = make<Compare>(ExprKind::kCompare, first->line);
  note_child(*node, first.get());
  node->first = std::move(first);
  do {
    node->rest.emplace_back(op, parse_sum());
    note_child(*node, node->rest.back().second.get());
  } while (take_comparison(op));
  return node;
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  for (;;) {
    Arithmetic op = Arithmetic::kAdd;
    if (tokens_.take_operator("-")) {
      op = Arithmetic::kSubtract;
    } else if (!tokens_.take_operator("+")) {
      return left;
    }
    left = make_binary(ExprKind::kArithmetic, std::move(left), parse_concat(), op);
  }
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!tokens_.is_operator("~")) return first;
  auto node = make<Sequence>(ExprKind::kConcat, first->line);
  node->items.push_back(std::move(first));
  while (tokens_.take_operator("~")) node->items.push_back(parse_product());
  for (const ExprPtr& item : node->items) note_child(*node, item.get());
  return node;
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  for (;;) {
    Arithmetic op = Arithmetic::kMultiply;
    if (tokens_.take_operator("/")) {
      op = Arithmetic::kDivide;
    } else if (tokens_.take_operator("//")) {
      op = Arithmetic::kFloorDivide;
    } else if (tokens_.take_operator("%")) {
      op = Arithmetic::kRemainder;
    } else if (!tokens_.take_operator("*")) {
      return left;
    }
    left = make_binary(ExprKind::kArithmetic, std::move(left), parse_power(), op);
  }
}

ExprPtr ExpressionParser::parse_power() {
  // From left to right, unlike Python: 2 ** 3 ** 2 is 64.
  ExprPtr left = parse_signed(true);
  while (tokens_.take_operator("**")) {
    left =
        make_binary(ExprKind::kArithmetic, std::move(left), parse_signed(true), Arithmetic::kPower);
  }
  return left;
}

ExprPtr ExpressionParser::parse_signed(bool with_filters) {
  ExprPtr node;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Nesting nesting(*this);
    const Token& sign = tokens_.take();
    const ExprKind kind = sign.text == "-" ? ExprKind::kNegate : ExprKind::kAffirm;
    const std::uint32_t line = sign.line;
    node = make_unary(kind, parse_signed(false), line);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  // The sign binds closer than a filter: -1|abs is 1.
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  const std::uint32_t line = token.line;
  switch (token.type) {
    case TokenType::kName: {
      const std::string name = tokens_.take().text;
      if (name == "true" || name == "True") return make_literal(Value::boolean(true), line);
      if (name == "false" || name == "False") return make_literal(Value::boolean(false), line);
      if (name == "none" || name == "None") return make_literal(Value::none(), line);
      auto node = make<Name>(ExprKind::kName, line);
      node->name = name;
      return node;
    }
    case TokenType::kString:
      return parse_string();
    case TokenType::kInteger:
      return make_literal(Value::integer(tokens_.take().integer), line);
    case TokenType::kReal:
      return make_literal(Value::real(tokens_.take().real), line);
    default:
      break;
  }
  if (tokens_.take_operator("(")) {
    ExprPtr node = parse_tuple(Conditions::kAllowed, "", true);
    tokens_.expect_operator(")");
    return node;
  }
  if (tokens_.take_operator("[")) return parse_list();
  if (tokens_.take_operator("{")) return parse_dict();
  tokens_.fail_unexpected("an expression");
}

ExprPtr ExpressionParser::parse_string() {
  const std::uint32_t line = tokens_.line();
  std::string bytes;
  while (tokens_.is(TokenType::kString)) bytes += tokens_.take().text;  // adjacent strings join
  // Literals are made before any render, so they are counted by no Runtime.
  Runtime unlimited{Limits{}};
  return make_literal(unlimited.string(bytes), line);
}

ExprPtr ExpressionParser::parse_list() {
  auto node = make<Sequence>(ExprKind::kList, tokens_.line());
  while (!tokens_.is_operator("]")) {
    node->items.push_back(parse());
    note_child(*node, node->items.back().get());
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return node;
}

ExprPtr ExpressionParser::parse_dict() {
  auto node = make<DictExpr>(ExprKind::kDict, tokens_.line());
  while (!tokens_.is_operator("}")) {
    ExprPtr key = parse();
    tokens_.expect_operator(":");
    ExprPtr value = parse();
    note_child(*node, key.get());
    note_child(*node, value.get());
    node->entries.emplace_back(std::move(key), std::move(value));
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return node;
}

}  // namespace ft::text::jinja
