// Bodies of /v1/responses: every parameter is honoured or refused by name. docs/server-api.md lists
// them. No sockets, no model.
#pragma once

#include "server/text_request.h"

#include <string_view>

namespace ft::server {

/// Throws ApiError.
TextRequest parse_responses_request(std::string_view body, const RequestLimits& limits);

}  // namespace ft::server
