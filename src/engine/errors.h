// The border between the exceptions inside and the one the public header promises.
#pragma once

#include "base/error.h"
#include "foretoken/foretoken.h"

#include <exception>
#include <new>
#include <utility>

namespace ft::engine {

/// The public form of an exception that is being handled.
foretoken::Error public_error(const std::exception_ptr& exception) noexcept;

/// Runs `body` and turns whatever it throws into foretoken::Error.
template <typename Body>
auto with_public_errors(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const foretoken::Error&) {
    throw;  // with its type
  } catch (...) {
    throw public_error(std::current_exception());
  }
}

}  // namespace ft::engine
