// Runs a resolved template: one object per render.
#pragma once

#include "text/jinja/access.h"
#include "text/jinja/arguments.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/runtime.h"
#include "text/jinja/statement.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text::jinja {

class Interpreter {
 public:
  /// `variables` is a dict: what the template's free names mean before the built-in functions are
  /// asked.
  Interpreter(Runtime& runtime, const TemplateNode& root, Value variables)
      : runtime_(runtime), root_(root), variables_(std::move(variables)) {}

  /// The text of the template. Throws InvalidInput.
  MarkedText run();

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  struct LoopRun;

  // Statements (interpreter.cc)
  Flow execute(const Body& body, Scope& scope);
  Flow execute(const Statement& statement, Scope& scope);
  void execute_text(const Text& node);
  void execute_print(const Print& node, Scope& scope);
  Flow execute_if(const If& node, Scope& scope);
  Flow execute_set_block(const SetBlock& node, Scope& scope);
  Flow execute_filter_block(const FilterBlock& node, Scope& scope);
  Flow execute_with(const With& node, Scope& scope);
  void execute_macro(const MacroNode& node, Scope& scope);
  void execute_call_block(const CallBlock& node, Scope& scope);
  void emit(const Value& value);

  // Loops (loops.cc)
  Flow execute_for(const For& node, Scope& scope);
  Flow run_loop(const LoopRun& run);
  Flow run_iterations(const LoopRun& run, const std::function<bool(Value&)>& next, bool& has_run);
  std::function<bool(Value&)> filtered_source(const LoopRun& run, Cursor& cursor, Scope& filter);
  Value render_recursive(const For& node,
                         const Value& iterable,
                         Scope& closure,
                         std::int64_t depth);

  // Variables (variables.cc)
  void enter(const FrameLayout& layout, Scope& scope);
  static void leave(const FrameLayout& layout, Scope& scope);
  static Value& slot(SlotRef ref, Scope& scope);
  Value lookup(const std::string& name);
  void assign(const Target& target, const Value& value, Scope& scope);
  Value read(const Target& target, Scope& scope);
  std::unique_ptr<Scope> make_scope(std::size_t n_slots, Scope* parent);
  void retire(std::unique_ptr<Scope> scope);
  static void capture(Scope& scope);

  // Expressions (evaluation.cc)
  Value evaluate(const Expr& expr, Scope& scope);
  Value evaluate_name(const Name& name, Scope& scope);
  Value evaluate_sequence(const Sequence& node, Scope& scope);
  Value evaluate_concat(const Sequence& node, Scope& scope);
  Value evaluate_dict(const DictExpr& node, Scope& scope);
  Value evaluate_logic(const Binary& node, Scope& scope);
  Value evaluate_compare(const Compare& node, Scope& scope);
  Value evaluate_conditional(const Conditional& node, Scope& scope);
  Value evaluate_slice(const SliceExpr& node, Scope& scope);
  Value evaluate_call(const Call& node, Scope& scope, const Value* caller = nullptr);
  Value evaluate_filter(const FilterExpr& node, Scope& scope, const Value* block_text = nullptr);
  Value evaluate_test(const TestExpr& node, Scope& scope);
  Arguments evaluate_arguments(const ArgumentList& list, Scope& scope);

  // Calls (calls.cc)
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const MacroObject& macro, Arguments arguments);
  void bind_parameters(const MacroNode& node, Arguments& arguments, Scope& scope);
  void bind_implicit(const MacroNode& node, Arguments& arguments, bool has_caller, Scope& scope);
  void fill_defaults(const MacroNode& node, Scope& scope);
  Value call_loop(const Value& loop, const Arguments& arguments);

  /// Output goes to `buffer` for the lifetime of the object.
  class Redirect {
   public:
    Redirect(Interpreter& interpreter, MarkedText& buffer)
        : interpreter_(interpreter), previous_(std::exchange(interpreter.out_, &buffer)) {}
    ~Redirect() { interpreter_.out_ = previous_; }
    Redirect(const Redirect&) = delete;
    Redirect& operator=(const Redirect&) = delete;
    Redirect(Redirect&&) = delete;
    Redirect& operator=(Redirect&&) = delete;

   private:
    Interpreter& interpreter_;
    MarkedText* previous_;
  };

  Runtime& runtime_;
  const TemplateNode& root_;
  Value variables_;
  MarkedText* out_ = nullptr;
  std::vector<std::unique_ptr<Scope>> captured_;  // scopes that macros may still need
};

}  // namespace ft::text::jinja
