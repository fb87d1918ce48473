#include "server/responses_request.h"

#include "server/api_error.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::server {
namespace {

TextRequest parse(const std::string& members) {
  return parse_responses_request(fmt::format("{{{}}}", members), {});
}
TextRequest hi(const std::string& members) {
  return parse(R"("input":"Hi",)" + members);
}

std::string refused_param(const std::string& members) {
  try {
    parse(members);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400) << members;
    EXPECT_FALSE(error.message.empty()) << members;
    return error.param;
  }
  return "was accepted";
}

std::string repeated(const TextRequest& request, const std::string& name) {
  for (const auto& [known, text] : request.repeated) {
    if (known == name) return text;
  }
  return "is not there";
}

TEST(ResponsesRequest, HonoursEveryParameter) {
  const TextRequest request = hi(
      R"("model":"m","max_output_tokens":7,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,
         "seed":42,"stop":["a"],"frequency_penalty":0.5,"logit_bias":{"5":-100},
         "include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":3,
         "stream":true,"stream_options":{"include_obfuscation":false},"speculate":"mtp,suffix",
         "draft_tokens":3,"accept":"ratio","ignore_eos":true)");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 7U);
  EXPECT_EQ(request.prompt_param, "input");
  const foretoken::GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.sampling.temperature, 0.5F);
  EXPECT_EQ(generation.sampling.top_p, 0.9F);
  EXPECT_EQ(generation.sampling.top_k, 40U);
  EXPECT_EQ(generation.sampling.min_p, 0.1F);
  EXPECT_EQ(generation.sampling.seed, 42U);
  EXPECT_EQ(generation.sampling.frequency_penalty, 0.5F);
  EXPECT_EQ(generation.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(generation.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(generation.logprobs, 3U);
  EXPECT_EQ(generation.speculate, (std::vector<std::string>{"mtp", "suffix"}));
  EXPECT_EQ(generation.draft_tokens, 3U);
  EXPECT_EQ(generation.accept, "ratio");
  EXPECT_TRUE(generation.ignore_eos);
  EXPECT_TRUE(request.is_stream);
  EXPECT_EQ(request.n, 1U);
}

TEST(ResponsesRequest, TextIsAUsersMessageBehindTheInstructions) {
  EXPECT_EQ(hi(R"("instructions":null)").chat_json,
            R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(hi(R"("instructions":"Be brief.")").chat_json,
            R"({"messages":[{"role":"system","content":"Be brief."},)"
            R"({"role":"user","content":"Hi"}]})");
}

TEST(ResponsesRequest, ItemsOfTheAssistantBecomeOneMessage) {
  const TextRequest request = parse(
      R"("input":[
        {"role":"developer","content":"d"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},
                                                   {"type":"input_text","text":"b"}]},
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],
         "content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":null,
         "status":"completed"},
        {"type":"message","id":"msg_1","role":"assistant","status":"completed",
         "content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},
        {"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"x\":1}",
         "status":"completed","caller":{"type":"direct"}},
        {"type":"function_call","call_id":"call_2","name":"g","arguments":""},
        {"type":"function_call_output","call_id":"call_2",
         "output":[{"type":"input_text","text":"2"}]},
        {"type":"function_call_output","call_id":"call_1","output":"1"},
        {"type":"reasoning","summary":[{"type":"summary_text","text":"only"}]},
        {"role":"assistant","content":"e"},
        {"role":"assistant","content":"f"}])");
  EXPECT_EQ(request.chat_json,
            R"({"messages":[{"role":"system","content":"d"},{"role":"user","content":"ab"},)"
            R"({"role":"assistant","reasoning_content":"t","tool_calls":[)"
            R"({"id":"call_1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
            R"({"id":"call_2","type":"function","function":{"name":"g","arguments":{}}}],)"
            R"("content":"c"},{"role":"tool","tool_call_id":"call_1","content":"1"},)"
            R"({"role":"tool","tool_call_id":"call_2","content":"2"},)"
            R"({"role":"assistant","reasoning_content":"only","content":"e"},)"
            R"({"role":"assistant","content":"f"}]})");
}

TEST(ResponsesRequest, ToolsGetTheShapeOfChats) {
  const std::string tools =
      R"("tools":[{"type":"function","name":"f","description":null,"strict":false,
                   "parameters":{"type":"object"},"allowed_callers":["direct"]}])";
  const std::string list =
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  const TextRequest request = hi(tools + R"(,"tool_choice":"auto","parallel_tool_calls":true)");
  EXPECT_EQ(request.tools_json, list);
  EXPECT_EQ(request.chat_json,
            R"({"messages":[{"role":"user","content":"Hi"}],"tools":)" + list + "}");
  EXPECT_EQ(hi(tools + R"(,"tool_choice":"none")").tools_json, "");
}

TEST(ResponsesRequest, ReasoningIsTheTemplatesThinking) {
  const auto thinking = [](const std::string& reasoning) {
    const std::string json = hi(R"("reasoning":)" + reasoning).chat_json;
    return json.substr(json.find(']') + 1);
  };
  EXPECT_EQ(thinking(R"({"effort":"none","summary":"auto"})"), R"(,"enable_thinking":false})");
  EXPECT_EQ(thinking(R"({"effort":"high"})"),
            R"(,"reasoning_effort":"high","enable_thinking":true})");
  EXPECT_EQ(thinking(R"({"effort":"xhigh","context":"all_turns"})"),
            R"(,"reasoning_effort":"max","enable_thinking":true,"clear_thinking":false})");
  EXPECT_EQ(thinking(R"({"effort":null,"context":"auto","mode":"standard"})"), "}");
}

TEST(ResponsesRequest, RepeatsWhatTheReplyIsToSay) {
  const TextRequest silent = hi(R"("temperature":null)");
  EXPECT_EQ(repeated(silent, "temperature"), "null");
  EXPECT_EQ(repeated(silent, "metadata"), "{}");
  EXPECT_EQ(repeated(silent, "store"), "false");
  EXPECT_EQ(repeated(silent, "tool_choice"), R"("auto")");
  const TextRequest request =
      hi(R"("temperature":0.5,"metadata":{"a":"b"},"user":"u","max_tool_calls":2,
            "text":{"format":{"type":"text"},"verbosity":"medium"},"instructions":"\"i\"")");
  EXPECT_EQ(repeated(request, "temperature"), "0.5");
  EXPECT_EQ(repeated(request, "metadata"), R"({"a":"b"})");
  EXPECT_EQ(repeated(request, "user"), R"("u")");
  EXPECT_EQ(repeated(request, "instructions"), R"("\"i\"")");
  EXPECT_EQ(repeated(request, "max_tool_calls"), "2");
}

TEST(ResponsesRequest, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temprature":1)", "temprature"},
      {R"("n":2)", "n"},
      {R"("messages":[])", "messages"},
      {R"("max_tokens":5)", "max_tokens"},
      {R"("max_output_tokens":0)", "max_output_tokens"},
      {R"("store":true)", "store"},
      {R"("previous_response_id":"resp_1")", "previous_response_id"},
      {R"("conversation":{"id":"c"})", "conversation"},
      {R"("prompt":{"id":"p"})", "prompt"},
      {R"("background":true)", "background"},
      {R"("truncation":"auto")", "truncation"},
      {R"("service_tier":"flex")", "service_tier"},
      {R"("include":["file_search_call.results"])", "include[0]"},
      {R"("include":[1])", "include[0]"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("include":["message.output_text.logprobs"],"top_logprobs":21)", "top_logprobs"},
      {R"("stream_options":{})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_obfuscation":true})",
       "stream_options.include_obfuscation"},
      {R"("text":{"format":{"type":"json_schema","name":"x","schema":{}}})", "text.format.type"},
      {R"("text":{"verbosity":"low"})", "text.verbosity"},
      {R"("reasoning":{"effort":"low"})", "reasoning.effort"},
      {R"("reasoning":{"summary":"detailed"})", "reasoning.summary"},
      {R"("reasoning":{"x":1})", "reasoning.x"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","name":"f"})", "tool_choice"},
      {R"("parallel_tool_calls":false)", "parallel_tool_calls"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].name"},
      {R"("tools":[{"type":"function","name":"f","strict":true}])", "tools[0].strict"},
      {R"("tools":[{"type":"function","name":"f","defer_loading":true}])",
       "tools[0].defer_loading"},
      {R"("tools":[{"type":"function","name":"f","allowed_callers":["programmatic"]}])",
       "tools[0].allowed_callers"},
      {R"("tools":[{"type":"function","name":"f","function":{}}])", "tools[0].function"},
  };
  for (const auto& [members, param] : cases) {
    EXPECT_EQ(refused_param(R"("input":"Hi",)" + members), param) << members;
  }
}

TEST(ResponsesRequest, RefusesInputByPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"null", "input"},
      {"[]", "input"},
      {"7", "input"},
      {"[7]", "input[0]"},
      {R"([{"type":"item_reference","id":"msg_1"}])", "input[0].type"},
      {R"([{"type":"web_search_call","id":"ws_1"}])", "input[0].type"},
      {R"([{"id":"msg_1"}])", "input[0].role"},
      {R"([{"role":"tool","content":"x"}])", "input[0].role"},
      {R"([{"role":"user"}])", "input[0].content"},
      {R"([{"role":"user","content":[{"type":"output_text","text":"x"}]}])",
       "input[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
       "input[0].content[0].type"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "input[0].content[0].type"},
      {R"([{"role":"assistant","content":[{"type":"refusal","refusal":"x"}]}])",
       "input[0].content[0].type"},
      {R"([{"role":"assistant","content":"x","phase":"commentary"}])", "input[0].phase"},
      {R"([{"role":"user","content":"x","name":"n"}])", "input[0].name"},
      {R"([{"type":"reasoning","summary":[],"encrypted_content":"x"}])",
       "input[0].encrypted_content"},
      {R"([{"type":"function_call","call_id":"c","name":"f"}])", "input[0].arguments"},
      {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{"}])",
       "input[0].arguments"},
      {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"[]"}])",
       "input[0].arguments"},
      {R"([{"type":"function_call_output","call_id":"c","output":"x"}])", "input[0].call_id"},
  };
  for (const auto& [input, param] : cases) {
    EXPECT_EQ(refused_param(R"("input":)" + input), param) << input;
  }
}

}  // namespace
}  // namespace ft::server
