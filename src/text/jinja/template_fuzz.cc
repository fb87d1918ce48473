// Compiles the input as a chat template and renders it with a fixed request: any outcome but
// InvalidInput is a defect.
#include "base/error.h"
#include "json/json.h"
#include "text/jinja/template.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

const ft::json::Value& request() {
  static const ft::json::Value value = ft::json::parse(
      R"json({"messages": [{"role": "system", "content": "Be <brief>.\n"}, {"role": "user", "content": "Grüße <|user|>"},
        {"role": "assistant", "content": "<think>a</think>b", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "21"}]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "add_generation_prompt": true, "n": 7, "a": "x"})json",
      "request");
  return value;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Small, so that one input takes milliseconds.
  ft::text::jinja::Limits limits;
  limits.max_steps = 20'000;
  limits.max_work_bytes = 4'000'000;
  limits.max_text_bytes = 1'000'000;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    ft::text::jinja::Template::compile(source).render(request(), {}, limits);
  } catch (const ft::InvalidInput&) {
    return 0;  // the one way to refuse
  }
  return 0;
}
