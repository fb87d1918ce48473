// Who may ask: the API key, and the Host and Origin of a request. Against web pages that a browser
// lets talk to this machine.
#pragma once

#include "server/api_error.h"
#include "server/http_types.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

struct AccessOptions {
  std::string api_key;  // empty: none is asked for
  /// Names that a Host header may have besides those of the loopback, without port. "*": any.
  std::vector<std::string> allowed_hosts;
  /// Origins of web pages, such as "https://example.org"; a page of this server needs none.
  std::vector<std::string> allowed_origins;
};

/// Equal, in a time that depends on the length of `given` alone.
bool is_same_secret(std::string_view given, std::string_view secret) noexcept;

/// "localhost:8080" → "localhost", "[::1]:80" → "[::1]".
std::string_view without_port(std::string_view host) noexcept;

/// Status 403 for names and pages that are not let in.
std::optional<ApiError> refuse_origin(const RequestHead& head, const AccessOptions& options);

/// Status 401 without the key, if there is one.
std::optional<ApiError> refuse_key(const RequestHead& head, const AccessOptions& options);

/// Whether the origin is one of the list, so that its pages may read replies.
bool is_listed_origin(const RequestHead& head, const AccessOptions& options);

}  // namespace ft::server
