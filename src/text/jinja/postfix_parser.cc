// The part of ExpressionParser behind an operand: attributes, items, slices, calls, filters, tests.
#include "text/jinja/expression_parser.h"
#include "text/jinja/syntax_error.h"

#include <algorithm>
#include <utility>

namespace ft::text::jinja {
namespace {

// They are compared with each other one by one.
constexpr std::size_t kMaxNamedArguments = 255;

}  // namespace

ExprPtr ExpressionParser::parse_postfix(ExprPtr operand) {
  for (;;) {
    if (tokens_.is_operator(".") || tokens_.is_operator("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr operand) {
  for (;;) {
    if (tokens_.take_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (tokens_.is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const std::uint32_t line = tokens_.line();
  if (tokens_.take_operator("[")) return parse_bracket(std::move(object), line);
  tokens_.expect_operator(".");
  if (tokens_.is(TokenType::kName)) {
    auto node = std::make_unique<AttributeExpr>(ExprKind::kAttribute, line);
    note_child(*node, object.get());
    node->object = std::move(object);
    node->name = tokens_.take().text;
    return node;
  }
  auto index = std::make_unique<Literal>(ExprKind::kLiteral, line);
  index->value =
      Value::integer(tokens_.expect(TokenType::kInteger, "a name or an index behind '.'").integer);
  auto node = std::make_unique<ItemExpr>(ExprKind::kItem, line);
  note_child(*node, object.get());
  node->object = std::move(object);
  node->key = std::move(index);
  return node;
}

ExprPtr ExpressionParser::parse_bracket(ExprPtr object, std::uint32_t line) {
  ExprPtr first = parse_slice_or_key(object, line);
  if (object == nullptr) {  // moved into a slice
    tokens_.expect_operator("]");
    return first;
  }
  auto node = std::make_unique<ItemExpr>(ExprKind::kItem, line);
  node->object = std::move(object);
  if (tokens_.is_operator(",") || first == nullptr) {
    auto tuple = std::make_unique<Sequence>(ExprKind::kTuple, line);
    if (first != nullptr) {
      note_child(*tuple, first.get());
      tuple->items.push_back(std::move(first));
    }
    while (tokens_.take_operator(",") && !tokens_.is_operator("]")) {
      tuple->items.push_back(parse());
      note_child(*tuple, tuple->items.back().get());
    }
    first = std::move(tuple);
  }
  tokens_.expect_operator("]");
  node->key = std::move(first);
  note_child(*node, node->object.get());
  note_child(*node, node->key.get());
  return node;
}

ExprPtr ExpressionParser::parse_slice_or_key(ExprPtr& object, std::uint32_t line) {
  const auto is_bound_end = [this] {
    return tokens_.is_operator(":") || tokens_.is_operator("]") || tokens_.is_operator(",");
  };
  ExprPtr start;
  if (!is_bound_end()) start = parse();
  if (!tokens_.take_operator(":")) return start;
  auto node = std::make_unique<SliceExpr>(ExprKind::kSlice, line);
  node->start = std::move(start);
  if (!is_bound_end()) node->stop = parse();
  if (tokens_.take_operator(":") && !is_bound_end()) node->step = parse();
  node->object = std::move(object);
  for (const ExprPtr* part : {&node->object, &node->start, &node->stop, &node->step}) {
    note_child(*node, part->get());
  }
  return node;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  auto node = std::make_unique<Call>(ExprKind::kCall, tokens_.line());
  node->arguments = parse_arguments();
  note_child(*node, callee.get());
  note_arguments(*node, node->arguments);
  node->callee = std::move(callee);
  return node;
}

ArgumentList ExpressionParser::parse_arguments() {
  const std::uint32_t line = tokens_.line();
  ArgumentList arguments;
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    parse_argument(arguments, line);
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator(")");
  return arguments;
}

void ExpressionParser::parse_argument(ArgumentList& arguments, std::uint32_t line) {
  const auto require = [line](bool is_in_order) {
    if (!is_in_order) fail_syntax(line, "the arguments of the call are out of order");
  };
  if (tokens_.take_operator("*")) {
    require(arguments.more_positional == nullptr && arguments.more_named == nullptr);
    arguments.more_positional = parse();
    return;
  }
  if (tokens_.take_operator("**")) {
    require(arguments.more_named == nullptr);
    arguments.more_named = parse();
    return;
  }
  const Token& following = tokens_.following();
  if (tokens_.is(TokenType::kName) && following.type == TokenType::kOperator &&
      following.text == "=") {
    require(arguments.more_named == nullptr);
    std::string name = tokens_.take().text;
    tokens_.take();
    const bool is_repeated =
        std::any_of(arguments.named.begin(), arguments.named.end(), [&name](const auto& other) {
          return other.first == name;
        });
    if (is_repeated) fail_syntax(line, "argument '{}' is given twice", name);
    if (arguments.named.size() == kMaxNamedArguments) {
      fail_syntax(line, "a call of more than {} named arguments", kMaxNamedArguments);
    }
    ExprPtr value = parse();
    arguments.named.emplace_back(std::move(name), std::move(value));
    return;
  }
  require(arguments.more_positional == nullptr && arguments.more_named == nullptr &&
          arguments.named.empty());
  arguments.positional.push_back(parse());
}

ExprPtr ExpressionParser::parse_filter(ExprPtr input) {
  const std::uint32_t line = tokens_.line();
  auto node = std::make_unique<FilterExpr>(ExprKind::kFilter, line);
  node->name = tokens_.expect(TokenType::kName, "the name of a filter").text;
  while (tokens_.take_operator(".")) {
    node->name += "." + tokens_.expect(TokenType::kName, "the name of a filter").text;
  }
  if (tokens_.is_operator("(")) node->arguments = parse_arguments();
  node->filter = find_filter(node->name);
  note_child(*node, input.get());
  note_arguments(*node, node->arguments);
  node->input = std::move(input);
  return node;
}

ExprPtr ExpressionParser::parse_filters() {
  ExprPtr node;
  while (tokens_.take_operator("|")) node = parse_filter(std::move(node));
  return node;
}

ExprPtr ExpressionParser::parse_inline_filters() {
  ExprPtr node = parse_filter(nullptr);
  while (tokens_.take_operator("|")) node = parse_filter(std::move(node));
  return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const std::uint32_t line = tokens_.take().line;  // "is"
  const bool is_negated = tokens_.take_name("not");
  auto node = std::make_unique<TestExpr>(ExprKind::kTest, line);
  node->name = tokens_.expect(TokenType::kName, "the name of a test").text;
  while (tokens_.take_operator(".")) {
    node->name += "." + tokens_.expect(TokenType::kName, "the name of a test").text;
  }
  node->test = find_test(node->name);
  const TokenType type = tokens_.current().type;
  const bool is_operand = type == TokenType::kName || type == TokenType::kString ||
                          type == TokenType::kInteger || type == TokenType::kReal ||
                          tokens_.is_operator("[") || tokens_.is_operator("{");
  if (tokens_.is_operator("(")) {
    node->arguments = parse_arguments();
  } else if (is_operand && !tokens_.is_name("else") && !tokens_.is_name("or") &&
             !tokens_.is_name("and")) {
    if (tokens_.is_name("is")) fail_syntax(line, "tests cannot be chained with 'is'");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  note_child(*node, input.get());
  note_arguments(*node, node->arguments);
  node->input = std::move(input);
  if (!is_negated) return node;
  auto negation = std::make_unique<Unary>(ExprKind::kNot, line);
  note_child(*negation, node.get());
  negation->operand = std::move(node);
  return negation;
}

}  // namespace ft::text::jinja
