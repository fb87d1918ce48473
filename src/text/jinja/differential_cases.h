// Small templates that exercise every construct of the engine; differential_test.cc renders them
// here and in Jinja.
#pragma once

#include <string_view>
#include <vector>

namespace ft::text::jinja {

struct DifferentialCase {
  std::string_view source;
  std::string_view context = {};  // JSON object; empty: kDefaultContext
};

/// What most cases are rendered with.
extern const std::string_view kDefaultContext;

// White space, comments, raw blocks, lexical oddities.
std::vector<DifferentialCase> lexical_cases();
// if, for, set, macro, call, filter, with, generation; and which variable a name means.
std::vector<DifferentialCase> statement_cases();
// Operators, literals, attributes, items, slices, undefined values.
std::vector<DifferentialCase> expression_cases();
// Filters and tests.
std::vector<DifferentialCase> filter_cases();
// Methods and global functions.
std::vector<DifferentialCase> method_cases();

}  // namespace ft::text::jinja
