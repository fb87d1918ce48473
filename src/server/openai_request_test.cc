#include "server/openai_request.h"

#include "server/api_error.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::server {
namespace {

constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";

TextRequest chat(const std::string& members) {
  return parse_chat_request(fmt::format("{{{}{}{}}}", kHi, members.empty() ? "" : ",", members),
                            {});
}
TextRequest completion(const std::string& members) {
  return parse_completion_request(
      fmt::format(R"({{"prompt":"a"{}{}}})", members.empty() ? "" : ",", members), {});
}

template <typename Parse>
ApiError error_of(const Parse& parse) {
  try {
    parse();
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "was accepted";
  return {"", ""};
}
std::string refused_param(const std::string& members) {
  const ApiError error = error_of([&] { chat(members); });
  EXPECT_EQ(error.status, 400) << members;
  EXPECT_FALSE(error.message.empty());
  return error.param;
}

TEST(ChatRequest, HonoursEveryParameter) {
  const TextRequest request = chat(
      R"("model":"m","max_completion_tokens":7,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,
         "seed":42,"stop":["a","b"],"frequency_penalty":0.5,"presence_penalty":-1,
         "repetition_penalty":1.1,"logit_bias":{"5":-100,"6":2.5},"logprobs":true,"top_logprobs":3,
         "n":2,"stream":true,"stream_options":{"include_usage":true},
         "prediction":{"type":"content","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},
         "speculate":"mtp,suffix","draft_tokens":3,"accept":"ratio","ignore_eos":true,"timeout":1.5)");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 7U);
  const auto& sampling = request.generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 40U);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.seed, 42U);
  EXPECT_EQ(sampling.frequency_penalty, 0.5F);
  EXPECT_EQ(sampling.presence_penalty, -1.0F);
  EXPECT_EQ(sampling.repeat_penalty, 1.1F);
  ASSERT_EQ(sampling.logit_bias.size(), 2U);
  EXPECT_EQ(sampling.logit_bias[1].first, 6);
  EXPECT_EQ(sampling.logit_bias[1].second, 2.5F);
  EXPECT_EQ(request.generation.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.generation.logprobs, 3U);
  EXPECT_EQ(request.n, 2U);
  EXPECT_TRUE(request.is_stream);
  EXPECT_TRUE(request.includes_usage);
  EXPECT_EQ(request.prediction, "xy");
  EXPECT_EQ(request.generation.speculate, (std::vector<std::string>{"mtp", "suffix"}));
  EXPECT_EQ(request.generation.draft_tokens, 3U);
  EXPECT_EQ(request.generation.accept, "ratio");
  EXPECT_TRUE(request.generation.ignore_eos);
  EXPECT_EQ(request.generation.time_limit, std::chrono::milliseconds(1500));
}

TEST(ChatRequest, LeavesWhatIsAbsentOrNullUnset) {
  const TextRequest request = chat(R"("seed":null,"temperature":null,"stop":null,"tools":null)");
  EXPECT_FALSE(request.generation.sampling.seed);
  EXPECT_FALSE(request.generation.sampling.temperature);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_FALSE(request.generation.logprobs);
  EXPECT_FALSE(request.is_stream);
  EXPECT_EQ(request.generation.speculate, std::vector<std::string>{"auto"});
  EXPECT_EQ(request.chat_json, R"({"messages":[{"role":"user","content":"Hi"}]})");
}

TEST(ChatRequest, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temprature":1)", "temprature"},
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":1e999)", ""},
      {R"("top_p":0)", "top_p"},
      {R"("top_k":-1)", "top_k"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":5,"max_completion_tokens":6)", "max_tokens"},
      {R"("n":0)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("seed":-1)", "seed"},
      {R"("seed":18446744073709551616)", "seed"},
      {R"("repetition_penalty":0.0)", "repetition_penalty"},
      {R"("frequency_penalty":2.5)", "frequency_penalty"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",1])", "stop[1]"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
       "stop"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias.1"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
      {R"("response_format":{"type":"json_object"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.type"},
      {R"("grammar":"root ::= x")", "grammar"},
      {R"("guided_json":{})", "guided_json"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":true}}])",
       "tools[0].function.strict"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("reasoning_effort":"low")", "reasoning_effort"},
      {R"("reasoning_effort":"high","enable_thinking":false)", "reasoning_effort"},
      {R"("chat_template_kwargs":{"x":1})", "chat_template_kwargs.x"},
      {R"("speculate":"")", "speculate"},
      {R"("speculate":[1])", "speculate"},
      {R"("draft_tokens":65)", "draft_tokens"},
      {R"("accept":"maybe")", "accept"},
      {R"("prediction":{"type":"content"})", "prediction.content"},
      {R"("store":true)", "store"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("system_prompt":"str")", "system_prompt"},
  };
  for (const auto& [members, param] : cases) EXPECT_EQ(refused_param(members), param) << members;
}

TEST(ChatRequest, RefusesMessagesByPlace) {
  const auto param = [](const std::string& messages) {
    return error_of([&] { parse_chat_request(fmt::format(R"({{"messages":{}}})", messages), {}); })
        .param;
  };
  EXPECT_EQ(param("[]"), "messages");
  EXPECT_EQ(param("7"), "messages");
  EXPECT_EQ(param("[7]"), "messages[0]");
  EXPECT_EQ(param(R"([{"content":"x"}])"), "messages[0].role");
  EXPECT_EQ(param(R"([{"role":"user","content":"x"},{"role":"wizard","content":"x"}])"),
            "messages[1].role");
  EXPECT_EQ(param(R"([{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(param(R"([{"role":"user","content":"x","foo":1}])"), "messages[0].foo");
  EXPECT_EQ(param(R"([{"role":"assistant","tool_calls":[{"type":"function"}]}])"),
            "messages[0].tool_calls[0].function");
}

TEST(ChatRequest, WritesWhatTheTemplateRenders) {
  EXPECT_EQ(
      parse_chat_request(
          R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
              {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function",
               "function":{"name":"f","arguments":"{\"x\":1}"}}]},
              {"role":"tool","tool_call_id":"1","content":"ok"}],"reasoning_effort":"high"})",
          {})
          .chat_json,
      R"({"messages":[{"role":"system","content":"ab"},{"role":"assistant","reasoning_content":"r",)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}],"content":""},)"
      R"({"role":"tool","content":"ok"}],"reasoning_effort":"high","enable_thinking":true})");
  EXPECT_NE(chat(R"("reasoning_effort":"none")").chat_json.find(R"("enable_thinking":false)"),
            std::string::npos);
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}])";
  EXPECT_EQ(chat(tools).tools_json,
            R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  EXPECT_EQ(chat(tools + R"(,"tool_choice":"none")").tools_json, "");
}

TEST(ChatRequest, RefusesBodiesThatAreNoRequest) {
  for (const std::string body :
       {"", "{", "{:", "[]", "null", "\"x\"", "{\"a\":1,\"a\":2}", "{} {}", "\xB2\xE2"}) {
    EXPECT_EQ(error_of([&] { parse_chat_request(body, {}); }).status, 400) << body;
  }
  const std::string deep = std::string(100'000, '[');
  EXPECT_EQ(error_of([&] { parse_chat_request(R"({"messages":)" + deep, {}); }).code,
            "invalid_json");
}

TEST(CompletionRequest, TakesTextIdsAndLists) {
  EXPECT_EQ(std::get<std::string>(completion("").prompts.at(0)), "a");
  const auto prompts = [](const std::string& prompt) {
    return parse_completion_request(fmt::format(R"({{"prompt":{}}})", prompt), {}).prompts;
  };
  EXPECT_EQ(std::get<1>(prompts("[1,2]").at(0)), (std::vector<foretoken::Token>{1, 2}));
  EXPECT_EQ(prompts(R"(["a","b"])").size(), 2U);
  EXPECT_EQ(std::get<1>(prompts("[[1],[2,3]]").at(1)), (std::vector<foretoken::Token>{2, 3}));
  EXPECT_THROW(prompts("[[-1]]"), ApiError);
  EXPECT_THROW(prompts("[1,\"a\"]"), ApiError);
  EXPECT_THROW(prompts("[]"), ApiError);
  EXPECT_THROW(prompts("{}"), ApiError);
}

TEST(CompletionRequest, LimitsChoicesOverAllPrompts) {
  EXPECT_EQ(
      error_of([] { parse_completion_request(R"({"prompt":["a","b","c"],"n":6})", {}); }).param,
      "n");
  EXPECT_EQ(error_of([] { completion(R"("best_of":3)"); }).param, "best_of");
  EXPECT_EQ(error_of([] { completion(R"("suffix":"x")"); }).param, "suffix");
  EXPECT_EQ(error_of([] { completion(R"("messages":[])"); }).param, "messages");
  EXPECT_EQ(error_of([] { completion(R"("max_tokens":0)"); }).param, "max_tokens");
  EXPECT_EQ(completion(R"("echo":true,"max_tokens":0)").max_tokens, 0U);
  EXPECT_EQ(completion(R"("logprobs":2)").generation.logprobs, 2U);
}

TEST(TokenizeRequest, WantsOneInput) {
  EXPECT_EQ(parse_tokenize_request(R"({"content":"a"})", {}).text, "a");
  EXPECT_EQ(parse_tokenize_request(R"({"prompt":"b"})", {}).text, "b");
  EXPECT_FALSE(parse_tokenize_request(fmt::format("{{{}}}", kHi), {}).chat_json.empty());
  EXPECT_THROW(parse_tokenize_request("{}", {}), ApiError);
  EXPECT_THROW(parse_tokenize_request(R"({"content":"a","prompt":"b"})", {}), ApiError);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[3,4]})", {}),
            (std::vector<foretoken::Token>{3, 4}));
  EXPECT_THROW(parse_detokenize_request(R"({"tokens":[3.5]})", {}), ApiError);
}

}  // namespace
}  // namespace ft::server
