#include "text/jinja/parser.h"

#include "text/jinja/expression_parser.h"
#include "text/jinja/syntax_error.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace ft::text::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;

template <typename Node>
std::unique_ptr<Node> make(StatementKind kind, std::uint32_t line) {
  return std::make_unique<Node>(kind, line);
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  std::unique_ptr<TemplateNode> run() {
    auto node = std::make_unique<TemplateNode>();
    node->body = parse_until({});
    return node;
  }

 private:
  using EndNames = std::initializer_list<std::string_view>;

  /// Statements up to a tag with one of these names, which becomes the current token; all of them
  /// without names.
  Body parse_until(EndNames end_names);
  /// The rest of an opening tag, the body, and up to one of the end names.
  Body parse_body(EndNames end_names);
  /// The same, and takes the only end name.
  Body parse_whole_body(std::string_view end_name);
  StatementPtr parse_statement();
  StatementPtr parse_if();
  StatementPtr parse_for();
  StatementPtr parse_set();
  StatementPtr parse_with();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_generation();
  StatementPtr parse_loop_control(StatementKind kind);
  void parse_print_tag(Body& body);
  void parse_parameters(MacroNode& macro);
  Body parse_function_body(std::string_view end_name);
  Target parse_target(std::string_view end_name);
  Target to_target(const Expr& expr);
  std::string parse_name(std::string_view role);

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::size_t n_loops_ = 0;  // loops around here that break and continue may mean
};

Body Parser::parse_until(EndNames end_names) {
  const ExpressionParser::Nesting nesting(expressions_);
  Body body;
  while (!tokens_.is(TokenType::kEnd)) {
    const std::uint32_t line = tokens_.line();
    if (tokens_.is(TokenType::kText)) {
      auto text = make<Text>(StatementKind::kText, line);
      text->text = tokens_.take().text;
      body.push_back(std::move(text));
    } else if (tokens_.is(TokenType::kPrintBegin)) {
      tokens_.take();
      auto print = make<Print>(StatementKind::kPrint, line);
      print->value = expressions_.parse_tuple();
      tokens_.expect(TokenType::kPrintEnd, "'}}'");
      body.push_back(std::move(print));
    } else {
      tokens_.expect(TokenType::kTagBegin, "a tag");
      const bool is_end = std::any_of(
          end_names.begin(), end_names.end(), [this](auto name) { return tokens_.is_name(name); });
      if (is_end) return body;
      if (tokens_.is_name("print")) {
        parse_print_tag(body);
      } else {
        body.push_back(parse_statement());
      }
      tokens_.expect(TokenType::kTagEnd, "'%}'");
    }
  }
  if (end_names.size() > 0) {
    fail_syntax(tokens_.line(), "the template ends where '{}' is expected", *(end_names.end() - 1));
  }
  return body;
}

Body Parser::parse_body(EndNames end_names) {
  tokens_.take_operator(":");
  tokens_.expect(TokenType::kTagEnd, "'%}'");
  return parse_until(end_names);
}

Body Parser::parse_whole_body(std::string_view end_name) {
  Body body = parse_body({end_name});
  tokens_.take();
  return body;
}

StatementPtr Parser::parse_statement() {
  using Parse = StatementPtr (Parser::*)();
  constexpr std::array<std::pair<std::string_view, Parse>, 8> statements = {{
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block},
      {"filter", &Parser::parse_filter_block},
      {"generation", &Parser::parse_generation},
  }};
  for (const auto& [name, parse] : statements) {
    if (tokens_.is_name(name)) return (this->*parse)();
  }
  if (tokens_.is_name("break")) return parse_loop_control(StatementKind::kBreak);
  if (tokens_.is_name("continue")) return parse_loop_control(StatementKind::kContinue);
  constexpr std::array<std::string_view, 8> unsupported = {
      "extends", "include", "import", "from", "block", "autoescape", "do", "trans"};
  for (const std::string_view name : unsupported) {
    if (tokens_.is_name(name)) fail_syntax(tokens_.line(), "'{}' is not supported", name);
  }
  tokens_.fail_unexpected("the name of a statement");
}

StatementPtr Parser::parse_if() {
  auto node = make<If>(StatementKind::kIf, tokens_.take().line);
  for (;;) {
    If::Branch branch;
    branch.test = expressions_.parse_tuple_without_condition("");
    branch.body = parse_body({"elif", "else", "endif"});
    node->branches.push_back(std::move(branch));
    if (tokens_.take_name("elif")) continue;
    if (tokens_.take_name("else")) {
      node->otherwise = parse_whole_body("endif");
    } else {
      tokens_.take();
    }
    return node;
  }
}

StatementPtr Parser::parse_for() {
  auto node = make<For>(StatementKind::kFor, tokens_.take().line);
  node->target = parse_target("in");
  tokens_.expect_name("in");
  node->iterable = expressions_.parse_tuple_without_condition("recursive");
  if (tokens_.take_name("if")) node->filter = expressions_.parse();
  node->is_recursive = tokens_.take_name("recursive");
  ++n_loops_;
  node->body = parse_body({"endfor", "else"});
  --n_loops_;
  if (tokens_.take_name("else")) {
    // The else of a recursive loop runs in the loop's own function.
    const std::size_t n_loops = node->is_recursive ? std::exchange(n_loops_, 0) : n_loops_;
    node->otherwise = parse_whole_body("endfor");
    n_loops_ = n_loops;
  } else {
    tokens_.take();
  }
  return node;
}

StatementPtr Parser::parse_set() {
  const std::uint32_t line = tokens_.take().line;
  Target target;
  const Token& following = tokens_.following();
  if (tokens_.is(TokenType::kName) && following.type == TokenType::kOperator &&
      following.text == ".") {
    target.line = line;
    target.name = tokens_.take().text;
    tokens_.take();
    target.attribute = parse_name("the name of a namespace member");
  } else {
    target = parse_target("");
  }
  if (tokens_.take_operator("=")) {
    auto node = make<Set>(StatementKind::kSet, line);
    node->target = std::move(target);
    node->value = expressions_.parse_tuple();
    return node;
  }
  auto node = make<SetBlock>(StatementKind::kSetBlock, line);
  node->target = std::move(target);
  node->filter = expressions_.parse_filters();
  node->body = parse_whole_body("endset");
  return node;
}

StatementPtr Parser::parse_with() {
  auto node = make<With>(StatementKind::kWith, tokens_.take().line);
  while (!tokens_.is(TokenType::kTagEnd)) {
    if (!node->values.empty()) tokens_.expect_operator(",");
    Target target = parse_target("");
    tokens_.expect_operator("=");
    node->values.emplace_back(std::move(target), expressions_.parse());
  }
  node->body = parse_whole_body("endwith");
  return node;
}

Body Parser::parse_function_body(std::string_view end_name) {
  const std::size_t n_loops = std::exchange(n_loops_, 0);
  Body body = parse_whole_body(end_name);
  n_loops_ = n_loops;
  return body;
}

void Parser::parse_parameters(MacroNode& macro) {
  // Compared with each other one by one, here and in calls.
  constexpr std::size_t max_parameters = 255;
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    MacroNode::Parameter parameter;
    parameter.name = parse_name("the name of a parameter");
    for (const MacroNode::Parameter& other : macro.parameters) {
      if (other.name == parameter.name) {
        fail_syntax(tokens_.line(), "parameter '{}' is declared twice", parameter.name);
      }
    }
    if (tokens_.take_operator("=")) {
      parameter.default_value = expressions_.parse();
    } else if (!macro.parameters.empty() && macro.parameters.back().default_value != nullptr) {
      fail_syntax(tokens_.line(), "parameter '{}' needs a default", parameter.name);
    }
    macro.parameters.push_back(std::move(parameter));
    if (macro.parameters.size() > max_parameters) {
      fail_syntax(tokens_.line(), "a macro of more than {} parameters", max_parameters);
    }
    if (!tokens_.take_operator(",")) break;
  }
  tokens_.expect_operator(")");
}

StatementPtr Parser::parse_macro() {
  auto node = make<MacroNode>(StatementKind::kMacro, tokens_.take().line);
  node->name = parse_name("the name of a macro");
  parse_parameters(*node);
  node->body = parse_function_body("endmacro");
  return node;
}

StatementPtr Parser::parse_call_block() {
  auto node = make<CallBlock>(StatementKind::kCallBlock, tokens_.take().line);
  node->caller = make<MacroNode>(StatementKind::kMacro, node->line);
  if (tokens_.is_operator("(")) parse_parameters(*node->caller);
  node->call = expressions_.parse();
  if (node->call->kind != ExprKind::kCall) fail_syntax(node->line, "'call' needs a call");
  node->caller->body = parse_function_body("endcall");
  return node;
}

StatementPtr Parser::parse_generation() {
  auto node = make<CallBlock>(StatementKind::kCallBlock, tokens_.take().line);
  node->caller = make<MacroNode>(StatementKind::kMacro, node->line);
  node->caller->body = parse_function_body("endgeneration");
  return node;
}

StatementPtr Parser::parse_filter_block() {
  auto node = make<FilterBlock>(StatementKind::kFilterBlock, tokens_.take().line);
  node->filter = expressions_.parse_inline_filters();
  node->body = parse_whole_body("endfilter");
  return node;
}

StatementPtr Parser::parse_loop_control(StatementKind kind) {
  const Token& token = tokens_.take();
  if (n_loops_ == 0) fail_syntax(token.line, "'{}' outside of a loop", token.text);
  return make<Statement>(kind, token.line);
}

void Parser::parse_print_tag(Body& body) {
  const std::uint32_t line = tokens_.take().line;
  bool is_first = true;
  while (!tokens_.is(TokenType::kTagEnd)) {
    if (!is_first) tokens_.expect_operator(",");
    auto print = make<Print>(StatementKind::kPrint, line);
    print->value = expressions_.parse();
    body.push_back(std::move(print));
    is_first = false;
  }
}

std::string Parser::parse_name(std::string_view role) {
  const Token& token = tokens_.expect(TokenType::kName, role);
  constexpr std::array<std::string_view, 6> literals = {
      "true", "True", "false", "False", "none", "None"};
  if (std::find(literals.begin(), literals.end(), token.text) != literals.end()) {
    fail_syntax(token.line, "'{}' cannot be {}", token.text, role);
  }
  return token.text;
}

Target Parser::parse_target(std::string_view end_name) {
  std::vector<ExprPtr> parts;
  const std::uint32_t line = tokens_.line();
  bool has_comma = false;
  const auto is_end = [&] {
    return tokens_.is(TokenType::kTagEnd) || tokens_.is_operator(")") ||
           (!end_name.empty() && tokens_.is_name(end_name));
  };
  while (!is_end()) {
    parts.push_back(expressions_.parse_primary());
    if (!tokens_.take_operator(",")) break;
    has_comma = true;
  }
  if (parts.empty() && !has_comma) tokens_.fail_unexpected("a name to assign to");
  if (!has_comma) return to_target(*parts.front());
  Target target;
  target.line = line;
  target.is_tuple = true;
  for (const ExprPtr& part : parts) target.parts.push_back(to_target(*part));
  return target;
}

Target Parser::to_target(const Expr& expr) {
  Target target;
  target.line = expr.line;
  if (expr.kind == ExprKind::kName) {
    target.name = static_cast<const Name&>(expr).name;
    return target;
  }
  if (expr.kind != ExprKind::kTuple) fail_syntax(expr.line, "only names can be assigned to");
  target.is_tuple = true;
  for (const ExprPtr& item : static_cast<const Sequence&>(expr).items) {
    target.parts.push_back(to_target(*item));
  }
  return target;
}

}  // namespace

std::unique_ptr<TemplateNode> parse_template(std::string_view source) {
  return Parser(source).run();
}

}  // namespace ft::text::jinja
