// Whether two models speak of the same tokens: what speculation with a second model rests on.
#pragma once

#include "text/tokenizer.h"

namespace ft::text {

/// Compares all ids and their bytes, which are special, and how a probe text is split. Throws
/// InvalidInput naming the first id that differs, with both texts.
void require_same_tokens(const Tokenizer& target, const Tokenizer& draft);

}  // namespace ft::text
