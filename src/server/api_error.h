// What a client is told when its request cannot be served.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ft::server {

struct ApiError : std::exception {
  /// A request that is wrong: status 400, naming the parameter ("messages[0].role"), or none.
  ApiError(std::string parameter, std::string text, std::string error_code = "invalid_value")
      : param(std::move(parameter)), message(std::move(text)), code(std::move(error_code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status = 400;
  std::string param;  // empty: null
  std::string message;
  std::string code;  // empty: null
};

/// An error that names no parameter.
ApiError api_error(int status, std::string message, std::string code = {});

/// OpenAI's type of errors with this status.
std::string_view openai_error_type(int status) noexcept;

/// As OpenAI's clients know it: {"error": {"message", "type", "param", "code"}}.
std::string openai_error_json(const ApiError& error);

}  // namespace ft::server
