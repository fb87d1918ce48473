// Tool calls in the messages of a request: OpenAI's clients send their arguments as JSON text,
// templates want objects.
#pragma once

#include "json/json.h"

namespace ft::text {

/// `messages` with the arguments of all tool calls as objects: JSON text is parsed, an empty text
/// means no arguments. A call is {"function": {"name", "arguments"}} or its inner object alone.
/// Throws InvalidInput if `messages` is no array or empty, or a message is no object; and, naming
/// message and call, for arguments that are no JSON or no object.
json::Value with_parsed_arguments(const json::Value& messages);

}  // namespace ft::text
