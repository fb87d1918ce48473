#include "base/error.h"

namespace ft::detail {

void check_failed(const char* file, int line, const char* condition) {
  throw LogicError(fmt::format("internal error: {}:{}: check failed: {}", file, line, condition));
}

}  // namespace ft::detail
