#include "server/access.h"

#include "base/error.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ft::server {
namespace {

bool is_allowed_host(std::string_view host, const AccessOptions& options) {
  constexpr std::array<std::string_view, 3> kLoopback = {"localhost", "127.0.0.1", "[::1]"};
  std::string name(without_port(host));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto& listed = options.allowed_hosts;
  return std::find(kLoopback.begin(), kLoopback.end(), name) != kLoopback.end() ||
         std::find(listed.begin(), listed.end(), name) != listed.end() ||
         std::find(listed.begin(), listed.end(), "*") != listed.end();
}

}  // namespace

bool is_same_secret(std::string_view given, std::string_view secret) noexcept {
  if (secret.empty()) return given.empty();
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ secret[i % secret.size()]);
  }
  return difference == 0;
}

std::string_view without_port(std::string_view host) noexcept {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) return host;
  if (bracket != std::string_view::npos && colon < bracket) return host;
  return host.substr(0, colon);
}

bool is_listed_origin(const RequestHead& head, const AccessOptions& options) {
  const auto& listed = options.allowed_origins;
  return !head.origin.empty() &&
         std::find(listed.begin(), listed.end(), head.origin) != listed.end();
}

std::optional<ApiError> refuse_origin(const RequestHead& head, const AccessOptions& options) {
  // HTTP/1.0 clients send no Host; browsers always do.
  if (!head.host.empty() && !is_allowed_host(head.host, options)) {
    return api_error(
        403,
        fmt::format("the host {} is not served here; see --allow-host", in_quotes(head.host)),
        "host_not_allowed");
  }
  const bool is_own_page = head.origin == "http://" + head.host;
  if (!head.origin.empty() && !is_own_page && !is_listed_origin(head, options)) {
    return api_error(
        403,
        fmt::format("pages of {} may not ask here; see --allow-origin", in_quotes(head.origin)),
        "origin_not_allowed");
  }
  return std::nullopt;
}

std::optional<ApiError> refuse_key(const RequestHead& head, const AccessOptions& options) {
  if (options.api_key.empty()) return std::nullopt;
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = head.api_key;
  if (std::string_view(head.authorization).starts_with(kBearer)) {
    given = std::string_view(head.authorization).substr(kBearer.size());
  }
  if (is_same_secret(given, options.api_key)) return std::nullopt;
  return api_error(401,
                   given.empty()
                       ? "an API key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY"
                       : "the API key is wrong",
                   "invalid_api_key");
}

}  // namespace ft::server
