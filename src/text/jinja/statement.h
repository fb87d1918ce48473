// The syntax tree of statements. Built by the parser, completed by the scope resolver (slots,
// loads), then read only.
#pragma once

#include "text/jinja/expression.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ft::text::jinja {

enum class StatementKind : std::uint8_t {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

struct Statement {
  Statement(StatementKind statement_kind, std::uint32_t at_line)
      : kind(statement_kind), line(at_line) {}
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement(Statement&&) = delete;
  Statement& operator=(Statement&&) = delete;

  StatementKind kind;
  std::uint32_t line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

/// What a frame (the template, a loop body, a macro ...) does to its variables when it is entered.
struct SlotLoad {
  enum class From : std::uint8_t { kRequest, kOuter, kNothing };
  From from = From::kNothing;
  std::uint32_t slot = 0;
  SlotRef outer;     // of kOuter
  std::string name;  // of kRequest
};

struct FrameLayout {
  std::vector<SlotLoad> loads;
  std::vector<std::uint32_t> owned_slots;  // emptied when the frame is left
};

/// Left side of an assignment: a name, a namespace member, or a tuple of targets.
struct Target {
  std::uint32_t line = 0;
  std::string name;       // empty for a tuple
  std::string attribute;  // non-empty for a namespace member
  SlotRef ref;
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Text final : Statement {
  using Statement::Statement;
  std::string text;
};

struct Print final : Statement {
  using Statement::Statement;
  ExprPtr value;
};

struct If final : Statement {
  using Statement::Statement;
  struct Branch {
    ExprPtr test;
    Body body;
  };
  std::vector<Branch> branches;  // if, elif ...
  Body otherwise;
};

struct For final : Statement {
  using Statement::Statement;
  Target target;
  ExprPtr iterable;
  ExprPtr filter;  // may be null
  Body body;
  Body otherwise;
  bool is_recursive = false;

  FrameLayout body_layout;
  FrameLayout else_layout;
  FrameLayout filter_layout;
  Target filter_target;                    // the target's slots in the filter's own scope
  std::optional<std::uint32_t> loop_slot;  // of the variable `loop`, if the body reads it
  std::uint32_t n_filter_slots = 0;
  std::uint32_t n_slots = 0;  // of a recursive loop's own scope
};

struct Set final : Statement {
  using Statement::Statement;
  Target target;
  ExprPtr value;
};

struct SetBlock final : Statement {
  using Statement::Statement;
  Target target;
  ExprPtr filter;  // may be null
  Body body;
  FrameLayout layout;
};

/// A macro, or the body of a call block (then it has no name).
struct MacroNode final : Statement {
  using Statement::Statement;
  struct Parameter {
    std::string name;
    ExprPtr default_value;  // may be null
    std::uint32_t slot = 0;
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  SlotRef ref;  // the variable that holds it

  FrameLayout layout;
  std::uint32_t n_slots = 0;
  // Slots of the implicit parameters, for those that the body reads and that are not declared.
  std::optional<std::uint32_t> caller_slot, kwargs_slot, varargs_slot;
  bool reads_caller = false;
};

struct CallBlock final : Statement {
  using Statement::Statement;
  std::unique_ptr<MacroNode> caller;
  ExprPtr call;  // a Call; null for {% generation %}, which is its body's text
};

struct FilterBlock final : Statement {
  using Statement::Statement;
  ExprPtr filter;
  Body body;
  FrameLayout layout;
};

struct With final : Statement {
  using Statement::Statement;
  std::vector<std::pair<Target, ExprPtr>> values;
  Body body;
  FrameLayout layout;
};

struct TemplateNode {
  Body body;
  FrameLayout layout;
  std::uint32_t n_slots = 0;
};

}  // namespace ft::text::jinja
