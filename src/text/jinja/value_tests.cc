// The tests behind `is`.
#include "text/jinja/access.h"
#include "text/jinja/method_tables.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_operations.h"

#include <array>
#include <string>

namespace ft::text::jinja {
namespace {

using Input = const Value&;
using Args = const Arguments&;

void refuse_arguments(Runtime& runtime, Args arguments) {
  const Bound bound(runtime, "the test", arguments, {});
}

const Value only_argument(Runtime& runtime, Args arguments) {
  return Bound(runtime, "the test", arguments, {"other"}, 1)[0];
}

template <Comparison op>
bool compares(Runtime& runtime, Input input, Args arguments) {
  return compare(runtime, op, input, only_argument(runtime, arguments));
}

template <bool (*has_property)(Input)>
bool is_a(Runtime& runtime, Input input, Args arguments) {
  refuse_arguments(runtime, arguments);
  return has_property(input);
}

template <Kind kind>
bool has_kind(Input input) {
  return input.is(kind);
}
bool is_defined(Input input) {
  return !input.is(Kind::kUndefined);
}
bool is_true_itself(Input input) {
  return input.is(Kind::kBool) && input.as_bool();
}
bool is_false_itself(Input input) {
  return input.is(Kind::kBool) && !input.as_bool();
}
bool is_number(Input input) {
  return input.is_number();
}
bool is_never(Input /*input*/) {
  return false;
}
bool is_sequence(Input input) {
  return input.is_string() || input.is_sequence() || input.is(Kind::kDict) ||
         input.is(Kind::kUndefined);
}
bool is_callable(Input input) {
  switch (input.kind()) {
    case Kind::kUndefined:  // calling it fails, but Python finds the method
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

bool has_remainder(Runtime& runtime, Input input, const Value& divisor, std::int64_t remainder) {
  return equal(runtime,
               arithmetic(runtime, Arithmetic::kRemainder, input, divisor),
               Value::integer(remainder));
}

template <std::int64_t remainder>
bool has_parity(Runtime& runtime, Input input, Args arguments) {
  refuse_arguments(runtime, arguments);
  return has_remainder(runtime, input, Value::integer(2), remainder);
}

bool is_divisible(Runtime& runtime, Input input, Args arguments) {
  return has_remainder(runtime, input, only_argument(runtime, arguments), 0);
}

template <Case letter_case>
bool is_in_case(Runtime& runtime, Input input, Args arguments) {
  refuse_arguments(runtime, arguments);
  return has_only_case(runtime, to_string(runtime, input).bytes(), letter_case);
}

bool is_same_as(Runtime& runtime, Input input, Args arguments) {
  return is_same(input, only_argument(runtime, arguments));
}

bool is_filter(Runtime& runtime, Input input, Args arguments) {
  refuse_arguments(runtime, arguments);
  return input.is_string() && find_filter(input.bytes()) != nullptr;
}

bool is_test(Runtime& runtime, Input input, Args arguments) {
  refuse_arguments(runtime, arguments);
  return input.is_string() && find_test(input.bytes()) != nullptr;
}

constexpr auto kTests = std::to_array<Test>({
    {"!=", compares<Comparison::kNotEqual>},
    {"<", compares<Comparison::kLess>},
    {"<=", compares<Comparison::kLessEqual>},
    {"==", compares<Comparison::kEqual>},
    {">", compares<Comparison::kGreater>},
    {">=", compares<Comparison::kGreaterEqual>},
    {"boolean", is_a<has_kind<Kind::kBool>>},
    {"callable", is_a<is_callable>},
    {"defined", is_a<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", compares<Comparison::kEqual>},
    {"equalto", compares<Comparison::kEqual>},
    {"escaped", is_a<is_never>},
    {"even", has_parity<0>},
    {"false", is_a<is_false_itself>},
    {"filter", is_filter},
    {"float", is_a<has_kind<Kind::kReal>>},
    {"ge", compares<Comparison::kGreaterEqual>},
    {"greaterthan", compares<Comparison::kGreater>},
    {"gt", compares<Comparison::kGreater>},
    {"in", compares<Comparison::kIn>},
    {"integer", is_a<has_kind<Kind::kInteger>>},
    {"iterable", is_a<is_iterable>},
    {"le", compares<Comparison::kLessEqual>},
    {"lessthan", compares<Comparison::kLess>},
    {"lower", is_in_case<Case::kLower>},
    {"lt", compares<Comparison::kLess>},
    {"mapping", is_a<has_kind<Kind::kDict>>},
    {"ne", compares<Comparison::kNotEqual>},
    {"none", is_a<has_kind<Kind::kNone>>},
    {"number", is_a<is_number>},
    {"odd", has_parity<1>},
    {"sameas", is_same_as},
    {"sequence", is_a<is_sequence>},
    {"string", is_a<has_kind<Kind::kString>>},
    {"test", is_test},
    {"true", is_a<is_true_itself>},
    {"undefined", is_a<has_kind<Kind::kUndefined>>},
    {"upper", is_in_case<Case::kUpper>},
});
static_assert(is_sorted_by_name(kTests));

}  // namespace

const Test* find_test(std::string_view name) {
  return find_by_name(kTests, name);
}

}  // namespace ft::text::jinja
