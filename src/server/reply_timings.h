// What replies of every API tell of a generation beyond their own members: its speeds as
// llama-server gives them, and what ended it.
#pragma once

#include "foretoken/result.h"
#include "json/json.h"

namespace ft::server {

/// An object. docs/server-api.md lists its members.
void write_timings(json::Writer& out, const foretoken::Completion& completion);

/// The stop string that was met, or `timeout`; else null.
void write_stop_reason(json::Writer& out, const foretoken::Completion& completion);

}  // namespace ft::server
