// What the transport reads of a request before its body: limits, the head as the API sees it, and
// what a parser's error means. Seen by the transport and its fuzzer alone: it includes Boost.
#pragma once

#include "server/http_types.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <string>

namespace ft::server {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

void limit(RequestParser& parser, std::size_t max_header_bytes, std::size_t max_body_bytes);

/// `own_id`: the request's, unless the client gave one that is fit for headers and log lines.
RequestHead head_of(const RequestParser& parser, const std::string& own_id);

/// HTTP/1.1 demands exactly one Host header.
bool has_valid_host(const RequestParser& parser);

/// Whether the client sent what is no request; else the connection failed.
bool is_of_client(const boost::system::error_code& error);
/// Of such an error.
int status_of(const boost::system::error_code& error);

}  // namespace ft::server
