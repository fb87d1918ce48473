#include "text/chat_template.h"

#include "base/error.h"
#include "text/jinja/template.h"
#include "text/tool_arguments.h"

#include <utility>

namespace ft::text {
namespace {

json::Value prepared_request(const json::Value& request) {
  const json::Value* messages = request.find("messages");
  json::Object out;
  for (const auto& [name, value] : request.as_object("chat request")) {
    if (name == "messages" || (name == "tools" && value.is_null())) continue;
    out.emplace_back(name, value);
  }
  if (messages == nullptr) fail("chat request: messages is missing, expected an array of messages");
  out.emplace_back("messages", with_parsed_arguments(*messages));
  if (request.find("add_generation_prompt") == nullptr) {
    out.emplace_back("add_generation_prompt", json::Value(true));
  }
  return json::Value(std::move(out));
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template compiled;
  json::Value trusted_variables;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::compile(std::string_view source, const json::Value& trusted_variables) {
  if (!trusted_variables.is_null()) trusted_variables.as_object("chat template variables");
  return ChatTemplate(
      std::make_unique<const Impl>(Impl{jinja::Template::compile(source), trusted_variables}));
}

std::vector<TextSegment> ChatTemplate::render(const json::Value& request) const {
  return impl_->compiled.render(prepared_request(request), impl_->trusted_variables).segments();
}

}  // namespace ft::text
