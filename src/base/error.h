// The exceptions of the project. Thrown when a load or a request cannot go on; caught in main() and
// in the engine's per-request guard; elsewhere only to collect problems or to restore state and
// throw again.
//
// A message is one line: what was tried, with which values, what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ft {

/// What a caller may do about an error; the command line maps it to its exit status.
enum class ErrorCode {
  kInvalidInput,       ///< a file, a flag or a request is wrong: exit status 2
  kIo,                 ///< the operating system refused: exit status 1
  kResourceExhausted,  ///< memory budget or address space: exit status 1
  kCancelled,          ///< a stop token fired: exit status 130
  kInternal,           ///< a programmer error (FT_CHECK): exit status 1
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// A file, a flag or a request is wrong.
struct InvalidInput : Error {
  explicit InvalidInput(const std::string& message) : Error(ErrorCode::kInvalidInput, message) {}
};
/// The operating system refused a read, a map, an open.
struct IoError : Error {
  explicit IoError(const std::string& message) : Error(ErrorCode::kIo, message) {}
};
struct ResourceExhausted : Error {
  explicit ResourceExhausted(const std::string& message)
      : Error(ErrorCode::kResourceExhausted, message) {}
};
struct Cancelled : Error {
  Cancelled() : Error(ErrorCode::kCancelled, "cancelled") {}
};
/// A broken contract between two parts of this program; never reachable from input.
struct LogicError : Error {
  explicit LogicError(const std::string& message) : Error(ErrorCode::kInternal, message) {}
};

/// Throws InvalidInput with a formatted message: `fail("config: hidden_size is {}, expected > 0",
/// n)`.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidInput(fmt::format(format, std::forward<Args>(args)...));
}

/// `text` in single quotes, fit for a one-line message: control bytes escaped, shortened beyond 400
/// bytes. For names and values that come from files and flags.
std::string in_quotes(std::string_view text);

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}

}  // namespace ft

/// Throws LogicError when a programmer's assumption is false. Always on; keep it out of inner
/// loops.
#define FT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::ft::detail::check_failed(__FILE__, __LINE__, #condition))
