#include "server/anthropic_messages.h"

#include "base/error.h"
#include "json/json.h"
#include "server/api_error.h"
#include "server/request_fields.h"
#include "server/tool_fields.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ft::server {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Calls `on_block` with each block of a content, its type and its fields: a string is one block of
// text. Blocks of other types than `types` are refused.
template <typename OnBlock>
void for_each_block(const json::Value& content,
                    const std::string& path,
                    const RequestLimits& limits,
                    const std::vector<std::string_view>& types,
                    const OnBlock& on_block) {
  if (content.is_string()) {
    const json::Value block(json::Object{{"type", json::Value(std::string("text"))},
                                         {"text", json::Value(content.as_string(""))}});
    RequestFields fields(block, path);
    on_block(fields.required_string("type"), fields);
    return;
  }
  if (!content.is_array()) {
    throw ApiError(
        path, fmt::format("'{}' is neither a string nor an array of blocks", path), "invalid_type");
  }
  const json::Array& blocks = content.as_array("");
  if (blocks.size() > limits.max_messages) {
    throw ApiError(
        path,
        fmt::format(
            "'{}' has {} blocks, expected at most {}", path, blocks.size(), limits.max_messages));
  }
  const std::string why =
      fmt::format("expected {}; the model reads text alone", fmt::join(types, ", "));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    RequestFields fields(blocks[i], fmt::format("{}[{}]", path, i));
    const std::string& type = fields.required_string("type");
    fields.only("type", types, why);
    on_block(type, fields);
  }
}

std::string text_of(RequestFields& block) {
  std::string text = block.required_string("text");
  check_cache_control(block);
  const json::Array* citations = block.array("citations", std::numeric_limits<std::size_t>::max());
  if (citations != nullptr && !citations->empty()) {
    throw ApiError(block.path_of("citations"),
                   fmt::format("'{}': documents cannot be cited here", block.path_of("citations")),
                   "unsupported_value");
  }
  block.finish();
  return text;
}

// A content of text blocks alone.
std::string plain_text(const json::Value& content,
                       const std::string& path,
                       const RequestLimits& limits) {
  std::string out;
  for_each_block(content, path, limits, {"text"}, [&](const std::string&, RequestFields& block) {
    out += text_of(block);
  });
  return out;
}

ToolCall call_of(RequestFields& block) {
  ToolCall out{
      block.required_string("id"), block.required_string("name"), block.required_object("input")};
  check_cache_control(block);
  check_caller(block);
  block.refuse({"toolset_name"}, "toolsets do not exist here");
  block.finish();
  return out;
}

struct AssistantMessage {
  std::string thinking;
  std::string text;
  std::vector<ToolCall> calls;
};

AssistantMessage assistant_message(const json::Value& content,
                                   const std::string& path,
                                   const RequestLimits& limits) {
  AssistantMessage out;
  for_each_block(content,
                 path,
                 limits,
                 {"text", "thinking", "redacted_thinking", "tool_use"},
                 [&](const std::string& type, RequestFields& block) {
                   if (type == "text") {
                     out.text += text_of(block);
                   } else if (type == "tool_use") {
                     out.calls.push_back(call_of(block));
                   } else {
                     // Nobody but its author can read what was redacted: it says nothing here.
                     if (type == "thinking") {
                       out.thinking += block.required_string("thinking");
                       block.string("signature");
                     } else {
                       block.required_string("data");
                     }
                     block.finish();
                   }
                 });
  return out;
}

// Writes the messages as chat templates know them.
class MessageWriter {
 public:
  MessageWriter(json::Writer& out, const RequestLimits& limits) : out_(out), limits_(limits) {}

  void system(const json::Value& content, const std::string& path) {
    write("system", plain_text(content, path, limits_));
  }

  void user(const json::Value& content, const std::string& path);

  void assistant(const AssistantMessage& message) {
    if (!is_behind_assistant_) open_calls_.clear();
    out_.begin_object().member("role", "assistant").member("content", message.text);
    // Even if empty: the template need not look for thinking in the text.
    out_.member("reasoning_content", message.thinking);
    write_tool_calls(out_, message.calls);
    out_.end_object();
    for (const ToolCall& call : message.calls) open_calls_.push_back(call.id);
    is_behind_assistant_ = true;
  }

 private:
  struct ToolResult {
    std::size_t call = 0;  // its place in open_calls_
    std::string text;
  };
  ToolResult result_of(RequestFields& block) const;
  void write(std::string_view role, const std::string& text) {
    out_.begin_object().member("role", role).member("content", text).end_object();
    is_behind_assistant_ = false;
  }

  json::Writer& out_;
  const RequestLimits& limits_;
  std::vector<std::string> open_calls_;  // ids that results may name
  bool is_behind_assistant_ = false;
};

MessageWriter::ToolResult MessageWriter::result_of(RequestFields& block) const {
  const std::string& id = block.required_string("tool_use_id");
  const auto call = std::find(open_calls_.begin(), open_calls_.end(), id);
  if (call == open_calls_.end()) {
    throw ApiError(block.path_of("tool_use_id"),
                   fmt::format("'{}' is {}: the assistant's message before has no such tool_use",
                               block.path_of("tool_use_id"),
                               in_quotes(id)));
  }
  ToolResult out{static_cast<std::size_t>(call - open_calls_.begin()), {}};
  if (const json::Value* content = block.find("content")) {
    out.text = plain_text(*content, block.path_of("content"), limits_);
  }
  // Templates have no other place for it.
  const bool is_error = block.boolean("is_error").value_or(false);
  if (is_error && !out.text.starts_with("Error")) out.text.insert(0, "Error: ");
  check_cache_control(block);
  block.refuse({"toolset_name"}, "toolsets do not exist here");
  block.finish();
  return out;
}

// Templates tell results of several calls apart by their order alone: it becomes that of the calls.
void MessageWriter::user(const json::Value& content, const std::string& path) {
  std::string text;
  bool has_text = false;
  std::vector<ToolResult> results;
  for_each_block(content,
                 path,
                 limits_,
                 {"text", "tool_result"},
                 [&](const std::string& type, RequestFields& block) {
                   if (type == "text") {
                     text += text_of(block);
                     has_text = true;
                   } else if (has_text) {
                     throw ApiError(path,
                                    fmt::format("'{}' has a tool_result behind a text: results "
                                                "come first",
                                                path));
                   } else {
                     results.push_back(result_of(block));
                   }
                 });
  std::stable_sort(results.begin(), results.end(), [](const ToolResult& a, const ToolResult& b) {
    return a.call < b.call;
  });
  for (const ToolResult& result : results) write("tool", result.text);
  if (has_text || results.empty()) write("user", text);
}

// A last message of the assistant is the beginning of the reply. Returns whether there is one.
bool read_beginning(const AssistantMessage& message,
                    const std::string& path,
                    const ThinkingChoice& thinking,
                    TextRequest& out) {
  if (!message.calls.empty()) {
    throw ApiError(path, fmt::format("'{}' ends with a tool_use that has no tool_result", path));
  }
  if (message.text.empty() && message.thinking.empty()) return false;
  if (thinking.is_on) {
    throw ApiError(path,
                   fmt::format("'{}' begins the reply, which needs 'thinking' disabled: the model "
                               "thinks before it replies",
                               path),
                   "unsupported_value");
  }
  out.continued_text = message.text;
  out.continued_text.erase(0, out.continued_text.find_first_not_of(kSpace));
  if (!message.text.empty() && kSpace.find(message.text.back()) != std::string_view::npos) {
    throw ApiError(path, fmt::format("'{}' begins the reply and ends with white space", path));
  }
  return true;
}

void write_messages(json::Writer& out,
                    RequestFields& fields,
                    const RequestLimits& limits,
                    const ThinkingChoice& thinking,
                    TextRequest& request) {
  const json::Array* messages = fields.array("messages", limits.max_messages);
  if (messages == nullptr || messages->empty()) {
    throw ApiError("messages", "'messages' is missing or empty", kMissing);
  }
  out.key("messages").begin_array();
  MessageWriter writer(out, limits);
  if (const json::Value* system = fields.find("system")) writer.system(*system, "system");
  bool continues = false;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    RequestFields message((*messages)[i], fmt::format("messages[{}]", i));
    const std::string& role = message.required_string("role");
    message.only("role", {"user", "assistant", "system"}, "expected user, assistant or system");
    const std::string path = message.path_of("content");
    const json::Value& content = message.required("content");
    message.finish();
    if (role == "user") {
      writer.user(content, path);
    } else if (role == "system") {
      writer.system(content, path);
    } else {
      const AssistantMessage said = assistant_message(content, path, limits);
      const bool is_last = i + 1 == messages->size();
      continues = is_last && read_beginning(said, path, thinking, request);
      if (continues || !is_last) writer.assistant(said);
    }
  }
  out.end_array();
  if (continues) out.member("add_generation_prompt", false);
}

// A tool as OpenAI's API describes it, which is what templates know.
json::Value tool_of(const json::Value& value, const std::string& path) {
  RequestFields tool(value, path);
  tool.only("type", {"custom"}, "only tools that the client describes and runs exist here");
  const std::string& name = tool.required_string("name");
  if (name.empty()) throw ApiError(path + ".name", fmt::format("'{}.name' is empty", path));
  const std::string* description = tool.string("description");
  const json::Value& schema = tool.required_object("input_schema");
  check_cache_control(tool);
  tool.boolean("eager_input_streaming");  // when input arrives, not which
  tool.only("strict", {"false"}, "constrained decoding does not exist here; leave it out");
  tool.only("defer_loading", {"false"}, "the model sees all tools");
  check_allowed_callers(tool);
  tool.refuse({"input_examples"}, "the model's template has no place for examples");
  tool.finish();
  json::Object function;
  function.emplace_back("name", json::Value(name));
  if (description != nullptr) function.emplace_back("description", json::Value(*description));
  function.emplace_back("parameters", schema);
  return function_tool(std::move(function));
}

bool may_call(RequestFields& fields) {
  std::optional<RequestFields> choice = fields.nested("tool_choice");
  if (!choice) return true;
  const std::string& type = choice->required_string("type");
  choice->only("type", {"auto", "none"}, "calls cannot be forced, expected auto or none");
  choice->only("disable_parallel_tool_use", {"false"}, "the number of calls cannot be held down");
  choice->finish();
  return type == "auto";
}

// The tools that the model may call.
json::Array callable_tools(RequestFields& fields, const RequestLimits& limits) {
  const json::Array* tools = fields.array("tools", limits.max_tools);
  const bool may = may_call(fields);
  json::Array out;
  for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    out.push_back(tool_of((*tools)[i], fmt::format("tools[{}]", i)));
  }
  // With `none` the model does not learn that there are tools.
  return may ? out : json::Array();
}

}  // namespace

void check_cache_control(RequestFields& fields) {
  std::optional<RequestFields> control = fields.nested("cache_control");
  if (!control) return;
  control->only("type", {"ephemeral"}, "expected ephemeral");
  control->only("ttl", {"5m", "1h"}, "expected 5m or 1h");
  control->finish();
}

void read_anthropic_chat(RequestFields& fields,
                         const RequestLimits& limits,
                         const ThinkingChoice& thinking,
                         TextRequest& out) {
  json::Writer text;
  text.begin_object();
  write_messages(text, fields, limits, thinking, out);
  if (json::Array tools = callable_tools(fields, limits); !tools.empty()) {
    write_tools(text, json::Value(std::move(tools)), out);
  }
  text.member("enable_thinking", thinking.is_on);
  if (!thinking.effort.empty()) text.member("reasoning_effort", thinking.effort);
  if (thinking.keeps_earlier) text.member("clear_thinking", false);
  text.end_object();
  out.chat_json = text.text();
}

}  // namespace ft::server
