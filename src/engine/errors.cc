#include "engine/errors.h"

namespace ft::engine {
namespace {

foretoken::ErrorCode public_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return foretoken::ErrorCode::kInvalidInput;
    case ErrorCode::kIo:
      return foretoken::ErrorCode::kIo;
    case ErrorCode::kResourceExhausted:
      return foretoken::ErrorCode::kResourceExhausted;
    case ErrorCode::kCancelled:
      return foretoken::ErrorCode::kCancelled;
    case ErrorCode::kInternal:
      return foretoken::ErrorCode::kInternal;
  }
  return foretoken::ErrorCode::kInternal;
}

}  // namespace

foretoken::Error public_error(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const foretoken::Error& error) {
    return error;
  } catch (const Error& error) {
    return {public_code(error.code()), error.what()};
  } catch (const std::bad_alloc&) {
    return {foretoken::ErrorCode::kResourceExhausted, "out of memory"};
  } catch (const std::exception& error) {
    return {foretoken::ErrorCode::kInternal, std::string("internal error: ") + error.what()};
  } catch (...) {
    return {foretoken::ErrorCode::kInternal, "internal error: an unknown exception"};
  }
}

}  // namespace ft::engine
