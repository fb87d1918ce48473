// Fuzz target: any bytes as the body of each request.
#include "base/error.h"
#include "json/json.h"
#include "server/anthropic_request.h"
#include "server/api_error.h"
#include "server/openai_request.h"
#include "server/responses_request.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

template <typename Parse>
void try_body(const Parse& parse) {
  try {
    parse();
  } catch (const ft::server::ApiError& error) {
    FT_CHECK(error.status >= 400 && !error.message.empty());
    ft::json::parse(ft::server::openai_error_json(error), "error");
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(data, data + size);
  const ft::server::RequestLimits limits;
  try_body([&] {
    const auto request = ft::server::parse_chat_request(body, limits);
    FT_CHECK(request.n >= 1 && request.n <= limits.max_choices);
    ft::json::parse(request.chat_json, "chat");
  });
  try_body([&] {
    const auto request = ft::server::parse_completion_request(body, limits);
    FT_CHECK(request.n * request.prompts.size() <= limits.max_choices);
  });
  try_body([&] {
    const auto request = ft::server::parse_responses_request(body, limits);
    ft::json::parse(request.chat_json, "chat");
    for (const auto& [name, text] : request.repeated) ft::json::parse(text, name);
  });
  try_body([&] {
    const auto request = ft::server::parse_anthropic_request(body, limits);
    ft::json::parse(request.chat_json, "chat");
  });
  try_body([&] { ft::server::parse_anthropic_count(body, limits); });
  try_body([&] { ft::server::parse_tokenize_request(body, limits); });
  try_body([&] { ft::server::parse_detokenize_request(body, limits); });
  return 0;
}
