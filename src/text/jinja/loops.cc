// The for loops of an Interpreter.
#include "text/jinja/access.h"
#include "text/jinja/interpreter.h"

#include <optional>
#include <utility>

namespace ft::text::jinja {

struct Interpreter::LoopRun {
  const For& node;
  const Value& iterable;
  Scope& scope;         // of the loop's own variables
  Scope& filter_outer;  // around the filter: the place of the for itself
  std::int64_t depth;
  Scope* closure;  // of a recursive loop: where its text starts from; else null
};

Interpreter::Flow Interpreter::execute_for(const For& node, Scope& scope) {
  const Value iterable = evaluate(*node.iterable, scope);
  if (!node.is_recursive) return run_loop({node, iterable, scope, scope, 0, nullptr});
  emit(render_recursive(node, iterable, scope, 0));
  return Flow::kNext;
}

Value Interpreter::render_recursive(const For& node,
                                    const Value& iterable,
                                    Scope& closure,
                                    std::int64_t depth) {
  const Runtime::Level level(runtime_);
  MarkedText text;
  const Redirect redirect(*this, text);
  capture(closure);
  std::unique_ptr<Scope> scope = make_scope(node.n_slots, &closure);
  run_loop({node, iterable, *scope, closure, depth, &closure});
  retire(std::move(scope));
  return runtime_.string(std::move(text));
}

std::function<bool(Value&)> Interpreter::filtered_source(const LoopRun& run,
                                                         Cursor& cursor,
                                                         Scope& filter) {
  if (run.node.filter == nullptr) return [&cursor](Value& value) { return cursor.next(value); };
  enter(run.node.filter_layout, filter);
  return [this, &node = run.node, &cursor, &filter](Value& value) {
    while (cursor.next(value)) {
      assign(node.filter_target, value, filter);
      if (is_true(evaluate(*node.filter, filter))) {
        value = read(node.filter_target, filter);
        return true;
      }
    }
    return false;
  };
}

Interpreter::Flow Interpreter::run_loop(const LoopRun& run) {
  const For& node = run.node;
  Cursor cursor(runtime_, run.iterable);
  const std::unique_ptr<Scope> filter = make_scope(node.n_filter_slots, &run.filter_outer);
  const std::function<bool(Value&)> source = filtered_source(run, cursor, *filter);
  bool has_run = false;
  if (!node.loop_slot) {
    run_iterations(run, source, has_run);
  } else {
    std::optional<std::size_t> known_length;
    if (node.filter == nullptr && has_length(run.iterable)) {
      known_length = length(runtime_, run.iterable);
    }
    auto loop = std::make_shared<LoopObject>(source, known_length, run.depth);
    if (run.closure != nullptr) {
      loop->recursive_node = &node;
      loop->closure = run.closure;
    }
    // Whoever keeps the loop variable must not read on after the loop; the guard also covers
    // errors.
    const std::unique_ptr<LoopObject, void (*)(LoopObject*)> guard(loop.get(),
                                                                   [](LoopObject* l) { l->end(); });
    run.scope.slots[*node.loop_slot] = Value(Kind::kLoop, loop);
    run_iterations(
        run, [&loop](Value& value) { return loop->advance(value); }, has_run);
    run.scope.slots[*node.loop_slot] = Value();
    if (loop.use_count() > 1) runtime_.keep(loop);
  }
  leave(node.body_layout, run.scope);
  if (has_run || node.otherwise.empty()) return Flow::kNext;
  enter(node.else_layout, run.scope);
  const Flow flow = execute(node.otherwise, run.scope);
  leave(node.else_layout, run.scope);
  return flow;
}

Interpreter::Flow Interpreter::run_iterations(const LoopRun& run,
                                              const std::function<bool(Value&)>& next,
                                              bool& has_run) {
  Value element;
  while (next(element)) {
    assign(run.node.target, element, run.scope);
    enter(run.node.body_layout, run.scope);
    const Flow flow = execute(run.node.body, run.scope);
    if (flow == Flow::kBreak) break;
    // As in Jinja, only an iteration that reaches its end keeps the else block from running.
    if (flow == Flow::kNext) has_run = true;
  }
  return Flow::kNext;
}

}  // namespace ft::text::jinja
