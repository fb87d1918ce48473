#include "server/request_head.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <string_view>

namespace ft::server {
namespace {

namespace http = boost::beast::http;

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

void limit(RequestParser& parser, std::size_t max_header_bytes, std::size_t max_body_bytes) {
  parser.header_limit(static_cast<std::uint32_t>(max_header_bytes));
  parser.body_limit(max_body_bytes);
}

RequestHead head_of(const RequestParser& parser, const std::string& own_id) {
  const auto& fields = parser.get();
  RequestHead head;
  const std::string given = text_of(fields["X-Request-Id"]);
  head.id = is_request_id(given) ? given : own_id;
  head.method = text_of(fields.method_string());
  const std::string target = text_of(fields.target());
  const std::size_t mark = target.find('?');
  head.path = target.substr(0, mark);
  if (mark != std::string::npos) head.query = target.substr(mark + 1);
  head.host = text_of(fields[http::field::host]);
  head.origin = text_of(fields[http::field::origin]);
  head.authorization = text_of(fields[http::field::authorization]);
  head.api_key = text_of(fields["X-Api-Key"]);
  head.anthropic_version = text_of(fields["Anthropic-Version"]);
  head.content_type = text_of(fields[http::field::content_type]);
  head.if_none_match = text_of(fields[http::field::if_none_match]);
  return head;
}

bool has_valid_host(const RequestParser& parser) {
  return parser.get().version() < 11 || parser.get().count(http::field::host) == 1;
}

bool is_of_client(const boost::system::error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

int status_of(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

}  // namespace ft::server
