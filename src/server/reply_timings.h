// Speeds of one generation as llama-server gives them.
#pragma once

#include "foretoken/request.h"
#include "json/json.h"

namespace ft::server {

/// An object. docs/server-api.md lists its members.
void write_timings(json::Writer& out, const foretoken::Completion& completion);

}  // namespace ft::server
