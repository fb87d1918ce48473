// The part of an Anthropic request that the model's template sees.
#pragma once

#include "server/request_fields.h"
#include "server/text_request.h"

#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// The template's own words for how much the model thinks.
struct ThinkingChoice {
  bool is_on = false;
  std::string effort;          // empty: the template's default
  bool keeps_earlier = false;  // that of turns before the last message of the user, too
};

/// Takes system, messages, tools and tool_choice out of a request and sets chat_json, tools_json
/// and continued_text. Throws ApiError.
void read_anthropic_chat(RequestFields& fields,
                         const RequestLimits& limits,
                         const ThinkingChoice& thinking,
                         TextRequest& out);

/// Takes a cache_control out of any object that may have one: it is checked and has no effect, for
/// it says what to keep and nothing about the reply.
void check_cache_control(RequestFields& fields);

}  // namespace ft::server
