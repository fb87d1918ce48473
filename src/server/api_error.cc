#include "server/api_error.h"

#include "json/json.h"

namespace ft::server {

ApiError api_error(int status, std::string message, std::string code) {
  ApiError out({}, std::move(message), std::move(code));
  out.status = status;
  if (status == 401) out.type = "authentication_error";
  if (status == 403) out.type = "permission_error";
  if (status == 429) out.type = "rate_limit_error";
  if (status >= 500) out.type = "server_error";
  return out;
}

std::string error_json(const ApiError& error) {
  json::Writer out;
  out.begin_object().key("error").begin_object();
  out.member("message", error.message).member("type", error.type).key("param");
  error.param.empty() ? out.null() : out.value(error.param);
  out.key("code");
  error.code.empty() ? out.null() : out.value(error.code);
  out.end_object().end_object();
  return out.text();
}

}  // namespace ft::server
