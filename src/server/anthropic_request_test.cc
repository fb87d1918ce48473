#include "server/anthropic_request.h"

#include "json/json.h"
#include "server/api_error.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHi = R"("messages":[{"role":"user","content":"Hi"}])";
constexpr const char* kTool =
    R"({"name":"get_weather","description":"d","input_schema":{"type":"object"}})";

TextRequest parsed(const std::string& members) {
  return parse_anthropic_request(fmt::format(R"({{"model":"m","max_tokens":2000,{}}})", members),
                                 {});
}
TextRequest with(const std::string& members) {
  return parsed(fmt::format("{},{}", kHi, members));
}
/// What the template sees of these messages.
std::string chat(const std::string& messages, const std::string& members = R"("stream":false)") {
  return parsed(fmt::format(R"("messages":[{}],{})", messages, members)).chat_json;
}
std::string user(const std::string& content) {
  return fmt::format(R"({{"role":"user","content":{}}})", content);
}
std::string assistant(const std::string& content) {
  return fmt::format(R"({{"role":"assistant","content":{}}})", content);
}

std::string refused_body(const std::string& body) {
  try {
    parse_anthropic_request(body, {});
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_FALSE(error.message.empty());
    return error.param;
  }
  return "(accepted)";
}
std::string refused(const std::string& members) {
  return refused_body(fmt::format(R"({{"model":"m","max_tokens":2000,{},{}}})", kHi, members));
}
std::string refused_messages(const std::string& messages, const std::string& thinking = "null") {
  return refused_body(fmt::format(
      R"({{"model":"m","max_tokens":2000,"messages":[{}],"thinking":{}}})", messages, thinking));
}

TEST(AnthropicRequest, HonoursEveryParameter) {
  const TextRequest request = with(
      R"("temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":42,"stop_sequences":["a","b"],
         "stream":true,"speculate":"mtp,suffix","draft_tokens":3,"accept":"ratio",
         "metadata":{"user_id":"u"},"service_tier":"standard_only","speed":"standard",
         "cache_control":{"type":"ephemeral","ttl":"1h"},"tool_choice":null)");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 2000U);
  EXPECT_TRUE(request.is_stream);
  EXPECT_EQ(request.n, 1U);
  EXPECT_EQ(request.generation.sampling.temperature, 0.5F);
  EXPECT_EQ(request.generation.sampling.top_p, 0.9F);
  EXPECT_EQ(request.generation.sampling.top_k, 40U);
  EXPECT_EQ(request.generation.sampling.min_p, 0.1F);
  EXPECT_EQ(request.generation.sampling.seed, 42U);
  EXPECT_EQ(request.generation.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.generation.speculate, (std::vector<std::string>{"mtp", "suffix"}));
  EXPECT_EQ(request.generation.draft_tokens, 3U);
  EXPECT_EQ(request.generation.accept, "ratio");
  EXPECT_EQ(request.chat_json,
            R"({"messages":[{"role":"user","content":"Hi"}],"enable_thinking":false})");
  EXPECT_TRUE(request.tools_json.empty());
}

TEST(AnthropicRequest, SystemTextsGoInFront) {
  EXPECT_EQ(
      chat(user(R"("Hi")"),
           R"("system":[{"type":"text","text":"Be ","cache_control":{"type":"ephemeral"}},
                              {"type":"text","text":"brief"}])"),
      R"({"messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"Hi"}],)"
      R"("enable_thinking":false})");
  EXPECT_THAT(chat(user(R"("Hi")") + R"(,{"role":"system","content":"Later"})"),
              HasSubstr(R"({"role":"user","content":"Hi"},{"role":"system","content":"Later"})"));
}

// The blocks are those that replies of this server have.
TEST(AnthropicRequest, ToolRoundTripBecomesCallsAndToolMessages) {
  const std::string said = assistant(
      R"([{"type":"thinking","thinking":"Hm.","signature":"unsigned"},
          {"type":"redacted_thinking","data":"opaque"},
          {"type":"text","citations":null,"text":"I look."},
          {"type":"tool_use","id":"toolu_1","name":"get_weather","caller":{"type":"direct"},"input":{"city":"Oslo","n":[1,null]}},
          {"type":"tool_use","id":"toolu_2","name":"get_time","input":{}}])");
  const std::string results = user(
      R"([{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"no clock"}],"is_error":true},
          {"type":"tool_result","tool_use_id":"toolu_1","content":"rain","is_error":false},
          {"type":"text","text":"Go on."}])");
  EXPECT_EQ(
      chat(user(R"("Weather?")") + "," + said + "," + results),
      R"({"messages":[{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":"I look.","reasoning_content":"Hm.","tool_calls":[)"
      R"({"id":"toolu_1","type":"function","function":{"name":"get_weather","arguments":{"city":"Oslo","n":[1,null]}}},)"
      R"({"id":"toolu_2","type":"function","function":{"name":"get_time","arguments":{}}}]},)"
      R"({"role":"tool","content":"rain"},{"role":"tool","content":"Error: no clock"},)"
      R"({"role":"user","content":"Go on."}],"enable_thinking":false})");
}

TEST(AnthropicRequest, ToolsAreDescribedAsTemplatesKnowThem) {
  const TextRequest request = with(fmt::format(
      R"("tools":[{},{{"type":"custom","name":"f","input_schema":{{"type":"object","properties":{{}}}},"strict":false,
         "defer_loading":false,"eager_input_streaming":true,"allowed_callers":["direct"],"cache_control":{{"type":"ephemeral"}}}}],
         "tool_choice":{{"type":"auto","disable_parallel_tool_use":false}})",
      kTool));
  const std::string tools =
      R"([{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])";
  EXPECT_EQ(request.tools_json, tools);
  EXPECT_THAT(request.chat_json, HasSubstr("\"tools\":" + tools));

  const TextRequest without =
      with(fmt::format(R"("tools":[{}],"tool_choice":{{"type":"none"}})", kTool));
  EXPECT_TRUE(without.tools_json.empty());
  EXPECT_THAT(without.chat_json, Not(HasSubstr("tools")));
}

TEST(AnthropicRequest, ThinkingIsOnIfAskedFor) {
  EXPECT_THAT(with(R"("thinking":{"type":"disabled"})").chat_json,
              HasSubstr(R"("enable_thinking":false)"));
  EXPECT_THAT(with(R"("thinking":{"type":"enabled","budget_tokens":1024})").chat_json,
              HasSubstr(R"("enable_thinking":true})"));
  EXPECT_THAT(with(R"("thinking":{"type":"adaptive","display":"summarized"},
                      "output_config":{"effort":"high","format":null})")
                  .chat_json,
              HasSubstr(R"("enable_thinking":true,"reasoning_effort":"high"})"));
  EXPECT_THAT(
      with(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"})").chat_json,
      HasSubstr(R"("reasoning_effort":"max"})"));
  EXPECT_EQ(refused(R"("thinking":{"type":"between_tools"})"), "thinking.type");
  EXPECT_EQ(refused(R"("thinking":{})"), "thinking.type");
  EXPECT_EQ(refused(R"("thinking":{"type":"enabled"})"), "thinking.budget_tokens");
  EXPECT_EQ(refused(R"("thinking":{"type":"enabled","budget_tokens":2000})"),
            "thinking.budget_tokens");
  EXPECT_EQ(refused(R"("thinking":{"type":"disabled","budget_tokens":5})"),
            "thinking.budget_tokens");
  EXPECT_EQ(refused(R"("thinking":{"type":"adaptive","display":"omitted"})"), "thinking.display");
  EXPECT_EQ(refused(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"low"})"),
            "output_config.effort");
  EXPECT_EQ(refused(R"("output_config":{"effort":"high"})"), "output_config.effort");
}

TEST(AnthropicRequest, ThinkingOfEarlierTurnsIsKeptIfAskedFor) {
  EXPECT_THAT(
      with(R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})")
          .chat_json,
      HasSubstr(R"("clear_thinking":false)"));
  EXPECT_THAT(with(R"("context_management":{"edits":[]})").chat_json, Not(HasSubstr("clear")));
  const auto refused_edit = [](const std::string& edit) {
    return refused(fmt::format(R"("context_management":{{"edits":[{}]}})", edit));
  };
  EXPECT_EQ(refused_edit(R"({"type":"clear_tool_uses_20250919"})"),
            "context_management.edits[0].type");
  EXPECT_EQ(refused_edit(R"({"type":"clear_thinking_20251015"})"), "context_management.edits[0]");
  EXPECT_EQ(refused_edit(
                R"({"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}})"),
            "context_management.edits[0].keep.type");
}

TEST(AnthropicRequest, LastMessageOfTheAssistantIsContinued) {
  const TextRequest request =
      parsed(fmt::format(R"("messages":[{},{}])", user(R"("Sun?")"), assistant(R"(" It is (")")));
  EXPECT_EQ(request.continued_text, "It is (");
  EXPECT_THAT(request.chat_json, HasSubstr(R"("add_generation_prompt":false)"));
  const TextRequest empty =
      parsed(fmt::format(R"("messages":[{},{}])", user(R"("Sun?")"), assistant(R"("")")));
  EXPECT_TRUE(empty.continued_text.empty());
  EXPECT_EQ(empty.chat_json,
            R"({"messages":[{"role":"user","content":"Sun?"}],"enable_thinking":false})");

  const std::string question = user(R"("Sun?")") + ",";
  EXPECT_EQ(refused_messages(question + assistant(R"("It is ")")), "messages[1].content");
  EXPECT_EQ(refused_messages(question + assistant(R"("It")"), R"({"type":"adaptive"})"),
            "messages[1].content");
  EXPECT_EQ(refused_messages(question +
                             assistant(R"([{"type":"tool_use","id":"a","name":"f","input":{}}])")),
            "messages[1].content");
}

TEST(AnthropicRequest, RefusesWhatIsWrongInMessagesByItsPath) {
  const std::string call =
      assistant(R"([{"type":"tool_use","id":"a","name":"f","input":{}}])") + ",";
  EXPECT_EQ(refused_messages(""), "messages");
  EXPECT_EQ(refused_messages(R"({"content":"Hi"})"), "messages[0].role");
  EXPECT_EQ(refused_messages(R"({"role":"tool","content":"Hi"})"), "messages[0].role");
  EXPECT_EQ(refused_messages(R"({"role":"user"})"), "messages[0].content");
  EXPECT_EQ(refused_messages(R"({"role":"user","content":7})"), "messages[0].content");
  EXPECT_EQ(refused_messages(R"({"role":"user","content":"Hi","name":"x"})"), "messages[0].name");
  EXPECT_EQ(refused_messages(user(R"([{"text":"Hi"}])")), "messages[0].content[0].type");
  EXPECT_EQ(refused_messages(user(R"([{"type":"text"}])")), "messages[0].content[0].text");
  EXPECT_EQ(refused_messages(user(R"([{"type":"text","text":"Hi"},{"type":"image","source":{}}])")),
            "messages[0].content[1].type");
  EXPECT_EQ(refused_messages(user(R"([{"type":"document","source":{}}])")),
            "messages[0].content[0].type");
  EXPECT_EQ(refused_messages(user(R"([{"type":"tool_use","id":"a","name":"f","input":{}}])")),
            "messages[0].content[0].type");
  EXPECT_EQ(refused_messages(user(R"([{"type":"text","text":"Hi","citations":[{}]}])")),
            "messages[0].content[0].citations");
  EXPECT_EQ(refused_messages(user(R"([{"type":"text","text":"Hi","cache_control":{"type":"x"}}])")),
            "messages[0].content[0].cache_control.type");
  EXPECT_EQ(refused_messages(user(R"([{"type":"tool_result","tool_use_id":"a"}])")),
            "messages[0].content[0].tool_use_id");
  EXPECT_EQ(refused_messages(call + user(R"([{"type":"tool_result","content":"x"}])")),
            "messages[1].content[0].tool_use_id");
  EXPECT_EQ(refused_messages(
                call +
                user(R"([{"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]}])")),
            "messages[1].content[0].content[0].type");
  EXPECT_EQ(
      refused_messages(
          call + user(R"([{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}])")),
      "messages[1].content");
  EXPECT_EQ(
      refused_messages(assistant(R"([{"type":"tool_use","id":"a","name":"f","input":"{}"}])")),
      "messages[0].content[0].input");
  EXPECT_EQ(
      refused_messages(assistant(
          R"([{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"code"}}])")),
      "messages[0].content[0].caller.type");
}

TEST(AnthropicRequest, RefusesOtherParametersByName) {
  EXPECT_EQ(refused_body(fmt::format(R"({{"max_tokens":5,{}}})", kHi)), "model");
  EXPECT_EQ(refused_body(fmt::format(R"({{"model":"m",{}}})", kHi)), "max_tokens");
  EXPECT_EQ(refused_body(fmt::format(R"({{"model":"m","max_tokens":0,{}}})", kHi)), "max_tokens");
  for (const std::string name : {"container",
                                 "mcp_servers",
                                 "diagnostics",
                                 "inference_geo",
                                 "thread",
                                 "n",
                                 "presence_penalty",
                                 "made_up"}) {
    EXPECT_EQ(refused(fmt::format(R"("{}":1)", name)), name);
  }
  EXPECT_EQ(refused(R"("temperature":1.5)"), "temperature");
  EXPECT_EQ(refused(R"("stop_sequences":"a")"), "stop_sequences");
  EXPECT_EQ(refused(R"("stop_sequences":[""])"), "stop_sequences[0]");
  EXPECT_EQ(refused(R"("service_tier":"priority")"), "service_tier");
  EXPECT_EQ(refused(R"("speed":"fast")"), "speed");
  EXPECT_EQ(refused(R"("output_config":{"format":{"type":"json_schema"}})"),
            "output_config.format");
  EXPECT_EQ(refused(R"("tool_choice":{"type":"any"})"), "tool_choice.type");
  EXPECT_EQ(refused(R"("tool_choice":{"type":"tool","name":"f"})"), "tool_choice.type");
  EXPECT_EQ(refused(R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true})"),
            "tool_choice.disable_parallel_tool_use");
  EXPECT_EQ(refused(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])"),
            "tools[0].type");
  EXPECT_EQ(refused(R"("tools":[{"name":"f"}])"), "tools[0].input_schema");
  EXPECT_EQ(refused(R"("tools":[{"name":"f","input_schema":{},"strict":true}])"),
            "tools[0].strict");
  EXPECT_EQ(refused(R"("tools":[{"name":"f","input_schema":{},"allowed_callers":["code"]}])"),
            "tools[0].allowed_callers");
  EXPECT_EQ(refused(R"("tools":[{"name":"f","input_schema":{},"input_examples":[{}]}])"),
            "tools[0].input_examples");
}

TEST(AnthropicRequest, CountTakesWhatShapesThePrompt) {
  const std::string shaped = fmt::format(
      R"("model":"m",{},"system":"s","tools":[{}],"thinking":{{"type":"enabled","budget_tokens":9000}})",
      kHi,
      kTool);
  const TextRequest request = parse_anthropic_count("{" + shaped + "}", {});
  EXPECT_EQ(request.chat_json,
            parse_anthropic_request(R"({"max_tokens":10000,)" + shaped + "}", {}).chat_json);
  EXPECT_THROW(parse_anthropic_count(R"({"max_tokens":5,)" + shaped + "}", {}), ApiError);
}

}  // namespace
}  // namespace ft::server
