#include "server/api_error.h"

#include "json/json.h"

namespace ft::server {

ApiError api_error(int status, std::string message, std::string code) {
  ApiError out({}, std::move(message), std::move(code));
  out.status = status;
  return out;
}

std::string_view openai_error_type(int status) noexcept {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string openai_error_json(const ApiError& error) {
  json::Writer out;
  out.begin_object().key("error").begin_object();
  out.member("message", error.message).member("type", openai_error_type(error.status)).key("param");
  error.param.empty() ? out.null() : out.value(error.param);
  out.key("code");
  error.code.empty() ? out.null() : out.value(error.code);
  out.end_object().end_object();
  return out.text();
}

}  // namespace ft::server
