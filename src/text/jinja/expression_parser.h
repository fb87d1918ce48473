// Parses Jinja's expressions. The grammar's levels, loosest first: inline if, or, and, not,
// comparison, + -, ~, * / // %,
// **, sign, postfix (.name [key] (call)), filters and tests.
#pragma once

#include "text/jinja/expression.h"
#include "text/jinja/token_stream.h"

#include <cstdint>
#include <string_view>

namespace ft::text::jinja {

/// Levels of a syntax tree, so that walking it recursively is safe.
inline constexpr std::uint32_t kMaxTreeHeight = 200;
/// Expressions within brackets, statements within statements, during parsing.
inline constexpr std::uint32_t kMaxNesting = 100;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// One expression; throws InvalidInput on anything else.
  ExprPtr parse();
  /// One expression without an inline if on its outermost level (a for's iterable is followed by
  /// its own if).
  ExprPtr parse_without_condition();
  /// Expressions with commas between become a tuple; one alone stays as it is. `end_name` ends the
  /// list as a tag's end does.
  ExprPtr parse_tuple();
  ExprPtr parse_tuple_without_condition(std::string_view end_name);
  /// "| name(arguments) ..." applied to the surrounding text; null if no filter follows. With
  /// starts_inline the first filter comes without its '|'.
  ExprPtr parse_filters();
  ExprPtr parse_inline_filters();
  /// A name, literal or bracketed expression.
  ExprPtr parse_primary();

  /// Counts one level of nesting for its lifetime; throws InvalidInput if there are too many.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Nesting(Nesting&&) = delete;
    Nesting& operator=(Nesting&&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  enum class Conditions : std::uint8_t { kAllowed, kNotAllowed };

  ExprPtr parse(Conditions conditions);
  ExprPtr parse_tuple(Conditions conditions, std::string_view end_name, bool may_be_empty);
  bool is_tuple_end(std::string_view end_name) const;
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  bool take_comparison(Comparison& op);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_signed(bool with_filters);
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_bracket(ExprPtr object, std::uint32_t line);
  ExprPtr parse_slice_or_key(ExprPtr& object, std::uint32_t line);
  ExprPtr parse_call(ExprPtr callee);
  ArgumentList parse_arguments();
  void parse_argument(ArgumentList& arguments, std::uint32_t line);
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_test(ExprPtr input);

  TokenStream& tokens_;
  std::uint32_t nesting_ = 0;
};

/// Makes `child` a child of `parent` in the count of levels; throws InvalidInput if there are too
/// many.
void note_child(Expr& parent, const Expr* child);
/// The same for all arguments.
void note_arguments(Expr& parent, const ArgumentList& arguments);

}  // namespace ft::text::jinja
