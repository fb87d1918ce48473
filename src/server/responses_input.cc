#include "server/responses_input.h"

#include "base/error.h"
#include "server/api_error.h"
#include "server/request_fields.h"
#include "server/tool_fields.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ft::server {
namespace {

// A text, or an array of parts of these types.
std::string text_of(const json::Value& content,
                    const std::string& path,
                    const std::vector<std::string_view>& types) {
  if (content.is_string()) return content.as_string("");
  if (!content.is_array()) {
    throw ApiError(
        path, fmt::format("'{}' is neither a string nor an array of parts", path), "invalid_type");
  }
  std::string out;
  const json::Array& parts = content.as_array("");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RequestFields part(parts[i], fmt::format("{}[{}]", path, i));
    part.only("type", types, "only text parts are understood here");
    if (part.required_string("type") == "output_text") {
      part.find("annotations");  // say nothing that the text does not
      part.find("logprobs");
    }
    // Prefixes are found again without marks.
    part.object("prompt_cache_breakpoint");
    out += part.required_string("text");
    part.finish();
  }
  return out;
}

std::string needed_text(RequestFields& fields,
                        std::string_view name,
                        const std::vector<std::string_view>& types) {
  return text_of(fields.required(name), fields.path_of(name), types);
}

class InputMessages {
 public:
  InputMessages(json::Writer& out, std::size_t max_depth) : out_(out), max_depth_(max_depth) {}

  void add_text(std::string_view role, std::string_view content) {
    end();
    out_.begin_object().member("role", role).member("content", content).end_object();
  }
  void add_item(const json::Value& value, const std::string& path) {
    RequestFields item(value, path);
    item.only("type",
              {"message", "reasoning", "function_call", "function_call_output"},
              "understood are message, reasoning, function_call and function_call_output");
    const std::string* given = item.string("type");
    const std::string type = given == nullptr ? "message" : *given;
    item.string("id");
    item.string("status");
    if (type == "message") {
      add_message(item);
    } else if (type == "reasoning") {
      add_reasoning(item);
    } else if (type == "function_call") {
      add_call(item);
    } else {
      add_output(item);
    }
    item.finish();
  }
  // Writes what is still open.
  void end() {
    end_turn();
    end_outputs();
  }

 private:
  // What the assistant did between two messages of others.
  struct Turn {
    std::optional<std::string> reasoning;
    std::optional<std::string> content;
    std::vector<ToolCall> calls;
  };
  struct Output {
    std::size_t call = 0;  // place among all calls
    std::string call_id;
    std::string text;
  };

  void end_turn() {
    if (!std::exchange(has_turn_, false)) return;
    const Turn turn = std::exchange(turn_, {});
    out_.begin_object().member("role", "assistant");
    if (turn.reasoning) out_.member("reasoning_content", *turn.reasoning);
    write_tool_calls(out_, turn.calls);
    out_.member("content", turn.content.value_or(std::string())).end_object();
  }

  // Templates tell outputs of several calls apart by their order alone: it becomes that of the
  // calls.
  void end_outputs() {
    std::stable_sort(outputs_.begin(), outputs_.end(), [](const Output& a, const Output& b) {
      return a.call < b.call;
    });
    for (const Output& output : outputs_) {
      out_.begin_object().member("role", "tool").member("tool_call_id", output.call_id);
      out_.member("content", output.text).end_object();
    }
    outputs_.clear();
  }

  // The open message of the assistant, to which something is added that stands before its calls.
  Turn& turn_without_answer() {
    end_outputs();
    if (turn_.content || !turn_.calls.empty()) end_turn();
    has_turn_ = true;
    return turn_;
  }

  void add_message(RequestFields& item) {
    item.only("role",
              {"user", "assistant", "system", "developer"},
              "expected user, assistant, system or developer");
    const std::string& role = item.required_string("role");
    item.only("phase", {}, "the model's template has no place for it");
    if (role == "assistant") {
      std::string content = needed_text(item, "content", {"output_text", "input_text"});
      turn_without_answer().content = std::move(content);
    } else {
      add_text(role == "user" ? "user" : "system", needed_text(item, "content", {"input_text"}));
    }
  }

  void add_reasoning(RequestFields& item) {
    item.only("encrypted_content", {}, "this server writes none: reasoning is given as text");
    const auto read = [&item](std::string_view name, std::string_view type) {
      return item.find(name) == nullptr ? std::string() : needed_text(item, name, {type});
    };
    const std::string summary = read("summary", "summary_text");
    const std::string text = read("content", "reasoning_text");
    Turn& turn = turn_without_answer();
    turn.reasoning = turn.reasoning.value_or(std::string()) + (text.empty() ? summary : text);
  }

  void add_call(RequestFields& item) {
    item.only("namespace", {}, "functions have no namespaces here");
    item.only("async", {"false"}, "calls are answered before the model goes on");
    check_caller(item);
    ToolCall call{
        item.required_string("call_id"), item.required_string("name"), arguments_of(item)};
    end_outputs();
    calls_[call.id] = n_calls_++;
    turn_.calls.push_back(std::move(call));
    has_turn_ = true;
  }

  json::Value arguments_of(RequestFields& item) const {
    const std::string& text = item.required_string("arguments");
    if (text.empty()) return json::Value(json::Object{});
    const std::string path = item.path_of("arguments");
    try {
      json::Value out = json::parse(text, path, {text.size() + 1, max_depth_});
      if (out.is_object()) return out;
    } catch (const InvalidInput& error) {
      throw ApiError(path, error.what(), "invalid_json");
    }
    throw ApiError(path, fmt::format("'{}' is no JSON object", path), "invalid_type");
  }

  void add_output(RequestFields& item) {
    check_caller(item);
    const std::string& id = item.required_string("call_id");
    const auto call = calls_.find(id);
    if (call == calls_.end()) {
      throw ApiError(
          item.path_of("call_id"),
          fmt::format("'{}': no function_call before it has this call_id; nothing is stored, so "
                      "the input must hold the call too",
                      item.path_of("call_id")));
    }
    item.string("name");
    end_turn();
    outputs_.push_back({call->second, id, needed_text(item, "output", {"input_text"})});
  }

  json::Writer& out_;
  const std::size_t max_depth_;
  bool has_turn_ = false;
  Turn turn_;
  std::map<std::string, std::size_t> calls_;  // places by id
  std::size_t n_calls_ = 0;
  std::vector<Output> outputs_;  // since the last call
};

}  // namespace

void write_input_messages(json::Writer& out, RequestFields& fields, const RequestLimits& limits) {
  const json::Value& input = fields.required("input");
  out.begin_array();
  InputMessages messages(out, limits.max_depth);
  if (const std::string* text = fields.string("instructions")) messages.add_text("system", *text);
  if (input.is_string()) {
    messages.add_text("user", input.as_string(""));
  } else {
    const json::Array& items = *fields.array("input", limits.max_messages);
    if (items.empty()) throw ApiError("input", "'input' is empty", kMissing);
    for (std::size_t i = 0; i < items.size(); ++i) {
      messages.add_item(items[i], fmt::format("input[{}]", i));
    }
  }
  messages.end();
  out.end_array();
}

}  // namespace ft::server
