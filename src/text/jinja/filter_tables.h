// The parts of the table behind find_filter().
#pragma once

#include "text/jinja/callable.h"

#include <string_view>

namespace ft::text::jinja {

const Filter* find_text_filter(std::string_view name);
const Filter* find_number_filter(std::string_view name);
const Filter* find_list_filter(std::string_view name);
const Filter* find_selection_filter(std::string_view name);

}  // namespace ft::text::jinja
