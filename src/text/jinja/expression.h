// The syntax tree of expressions. Built by the parser, completed by the scope resolver (slots),
// then read only.
#pragma once

#include "base/function_ref.h"
#include "text/jinja/callable.h"
#include "text/jinja/operators.h"
#include "text/jinja/value.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ft::text::jinja {

enum class ExprKind : std::uint8_t {
  kLiteral,
  kName,
  kList,
  kTuple,
  kDict,
  kNot,
  kNegate,
  kAffirm,
  kArithmetic,
  kAnd,
  kOr,
  kConcat,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  Expr(ExprKind expr_kind, std::uint32_t at_line) : kind(expr_kind), line(at_line) {}
  virtual ~Expr() = default;
  Expr(const Expr&) = delete;
  Expr& operator=(const Expr&) = delete;
  Expr(Expr&&) = delete;
  Expr& operator=(Expr&&) = delete;

  ExprKind kind;
  std::uint32_t line;
  std::uint32_t height = 1;  // levels below and including this node; bounded by the parser
};
using ExprPtr = std::unique_ptr<Expr>;

/// Where a variable lives: so many scopes out, at this slot.
struct SlotRef {
  std::uint32_t n_out = 0;
  std::uint32_t slot = 0;
};

struct Literal final : Expr {
  using Expr::Expr;
  Value value;
};

struct Name final : Expr {
  using Expr::Expr;
  std::string name;
  SlotRef ref;
};

/// kList, kTuple, kConcat
struct Sequence final : Expr {
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

struct DictExpr final : Expr {
  using Expr::Expr;
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

/// kNot, kNegate, kAffirm
struct Unary final : Expr {
  using Expr::Expr;
  ExprPtr operand;
};

/// kArithmetic, kAnd, kOr
struct Binary final : Expr {
  using Expr::Expr;
  Arithmetic op = Arithmetic::kAdd;  // of kArithmetic
  ExprPtr left;
  ExprPtr right;
};

/// a < b < c: each operand is evaluated once, the first false comparison ends it.
struct Compare final : Expr {
  using Expr::Expr;
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};

struct Conditional final : Expr {
  using Expr::Expr;
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // may be null
};

struct AttributeExpr final : Expr {
  using Expr::Expr;
  ExprPtr object;
  std::string name;
};

struct ItemExpr final : Expr {
  using Expr::Expr;
  ExprPtr object;
  ExprPtr key;
};

struct SliceExpr final : Expr {
  using Expr::Expr;
  ExprPtr object;
  ExprPtr start, stop, step;  // each may be null
};

struct ArgumentList {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  // *args, may be null
  ExprPtr more_named;       // **kwargs, may be null
};

struct Call final : Expr {
  using Expr::Expr;
  ExprPtr callee;
  ArgumentList arguments;
};

struct FilterExpr final : Expr {
  using Expr::Expr;
  ExprPtr input;  // null: the text of the surrounding block
  std::string name;
  const Filter* filter = nullptr;  // null: unknown, an error only if it is reached
  ArgumentList arguments;
};

struct TestExpr final : Expr {
  using Expr::Expr;
  ExprPtr input;
  std::string name;
  const Test* test = nullptr;  // null: unknown, an error only if it is reached
  ArgumentList arguments;
};

/// Calls `visit` for the direct parts of an expression, in the order of their evaluation.
void visit_children(Expr& expr, FunctionRef<void(Expr&)> visit);

}  // namespace ft::text::jinja
