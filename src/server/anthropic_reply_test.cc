#include "json/json.h"
#include "server/api.h"
#include "server/dialect.h"
#include "server/fake_backend_test_data.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = foretoken::ReplyDelta::Kind;

std::unique_ptr<ReplyWriter> writer(std::size_t max_tokens = 50) {
  TextRequest request;
  request.max_tokens = max_tokens;
  return anthropic_dialect().writer(request, {"req-1.a", 0, "glm", "fp", 30}, {});
}

Choice choice() {
  Choice out;
  out.completion.finish_reason = foretoken::FinishReason::kStop;
  out.completion.seed = 7;
  out.completion.usage = {30, 9, 20};
  out.n_reasoning_tokens = 4;
  return out;
}

json::Value message(const Choice& done) {
  return json::parse(writer()->whole(std::span(&done, 1)), "message");
}
std::string stop_reason(const Choice& done) {
  return message(done).find("stop_reason")->as_string("");
}

TEST(AnthropicReply, WholeMessageHasItsBlocksInOrder) {
  Choice done = choice();
  done.reply.deltas = {{Kind::kReasoning, "Hm.", 0},
                       {Kind::kContent, "I look.", 0},
                       {Kind::kToolName, "get_weather", 0},
                       {Kind::kToolArguments, R"({"city":"Oslo"})", 0},
                       {Kind::kToolName, "get_time", 1},
                       {Kind::kToolArguments, "{}", 1}};
  done.n_calls = 2;
  EXPECT_THAT(
      writer()->whole(std::span(&done, 1)),
      StartsWith(
          R"({"id":"msg_req-1.a","type":"message","role":"assistant","model":"glm","content":[)"
          R"({"type":"thinking","thinking":"Hm.","signature":"unsigned"},)"
          R"({"type":"text","citations":null,"text":"I look."},)"
          R"({"type":"tool_use","id":"toolu_req-1_a_0","name":"get_weather","caller":{"type":"direct"},"input":{"city":"Oslo"}},)"
          R"({"type":"tool_use","id":"toolu_req-1_a_1","name":"get_time","caller":{"type":"direct"},"input":{}}],)"
          R"("stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null,)"
          R"("usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":20,"output_tokens":9,)"
          R"("output_tokens_details":{"thinking_tokens":4},"server_tool_use":null,"cache_creation":null,)"
          R"("inference_geo":null,"service_tier":"standard","speed":null},"diagnostics":null,)"
          R"("seed":7,"timings":{"cache_n":20,)"));
}

TEST(AnthropicReply, StopReasonTellsWhatEndedIt) {
  Choice done = choice();
  EXPECT_EQ(stop_reason(done), "end_turn");
  done.completion.stop = "END";
  EXPECT_EQ(stop_reason(done), "stop_sequence");
  EXPECT_EQ(message(done).find("stop_sequence")->as_string(""), "END");
  done = choice();
  done.completion.finish_reason = foretoken::FinishReason::kLength;
  EXPECT_EQ(stop_reason(done), "model_context_window_exceeded");
  done.completion.usage.completion_tokens = 50;
  EXPECT_EQ(stop_reason(done), "max_tokens");
  done.n_calls = 1;
  EXPECT_EQ(stop_reason(done), "max_tokens");
  EXPECT_TRUE(message(done).find("content")->as_array("").empty());
}

TEST(AnthropicReply, StreamIsWhatTheSdkExpects) {
  const auto events = writer();
  EXPECT_EQ(
      events->begin(1),
      "event: message_start\n"
      R"(data: {"type":"message_start","message":{"id":"msg_req-1.a","type":"message","role":"assistant","model":"glm",)"
      R"("content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,)"
      R"("usage":{"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,)"
      R"("output_tokens_details":{"thinking_tokens":0},"server_tool_use":null,"cache_creation":null,)"
      R"("inference_geo":null,"service_tier":"standard","speed":null},"diagnostics":null}})"
      "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
  EXPECT_EQ(
      events->part(0, {{{Kind::kReasoning, "Hm", 0}}, {}}),
      "event: content_block_start\n"
      R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})"
      "\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}})"
      "\n\n");
  EXPECT_EQ(
      events->part(0, {{{Kind::kReasoning, ".", 0}, {Kind::kContent, "I", 0}}, {}}),
      "event: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"."}})"
      "\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"unsigned"}})"
      "\n\nevent: content_block_stop\n"
      R"(data: {"type":"content_block_stop","index":0})"
      "\n\nevent: content_block_start\n"
      R"(data: {"type":"content_block_start","index":1,"content_block":{"type":"text","citations":null,"text":""}})"
      "\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I"}})"
      "\n\n");
  EXPECT_EQ(
      events->part(0, {{{Kind::kToolName, "f", 0}, {Kind::kToolArguments, "{\"a\":1}", 0}}, {}}),
      "event: content_block_stop\n"
      R"(data: {"type":"content_block_stop","index":1})"
      "\n\nevent: content_block_start\n"
      R"(data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_req-1_a_0","name":"f",)"
      R"("caller":{"type":"direct"},"input":{}}})"
      "\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}})"
      "\n\n");
  // Calls that follow each other are blocks of their own.
  EXPECT_THAT(events->part(0, {{{Kind::kToolName, "g", 1}, {Kind::kToolArguments, "{}", 1}}, {}}),
              HasSubstr(R"("index":3,"content_block":{"type":"tool_use","id":"toolu_req-1_a_1")"));
  Choice done = choice();
  done.n_calls = 2;
  EXPECT_THAT(
      events->end_choice(done),
      StartsWith(
          "event: content_block_stop\n"
          R"(data: {"type":"content_block_stop","index":3})"
          "\n\nevent: message_delta\n"
          R"(data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null},)"
          R"("usage":{"input_tokens":10,)"));
  EXPECT_EQ(events->end({}), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  EXPECT_EQ(
      events->error(api_error(503, "stopping", "server_stopping")),
      "event: error\n"
      R"(data: {"type":"error","error":{"type":"overloaded_error","message":"stopping","code":"server_stopping","details":{"error_code":"server_stopping"}},"request_id":"req-1.a"})"
      "\n\n");
}

TEST(AnthropicReply, ErrorsHaveTheTypeOfTheirStatus) {
  const std::vector<std::pair<int, std::string>> types = {{400, "invalid_request_error"},
                                                          {401, "authentication_error"},
                                                          {403, "permission_error"},
                                                          {404, "not_found_error"},
                                                          {405, "invalid_request_error"},
                                                          {413, "request_too_large"},
                                                          {429, "rate_limit_error"},
                                                          {431, "request_too_large"},
                                                          {500, "api_error"},
                                                          {503, "overloaded_error"}};
  for (const auto& [status, type] : types) {
    EXPECT_EQ(
        anthropic_dialect().error_body(api_error(status, "m"), "r"),
        fmt::format(R"({{"type":"error","error":{{"type":"{}","message":"m"}},"request_id":"r"}})",
                    type));
  }
}

class AnthropicApi : public ::testing::Test {
 protected:
  Response answer(const std::string& path, const std::string& body, const std::string& key = "") {
    RequestHead head;
    head.id = "req-1";
    head.method = "POST";
    head.path = path;
    head.host = "127.0.0.1:8080";
    head.api_key = key;
    Api api(backend_, options_, std::make_shared<const SteadyClock>());
    if (auto early = api.answer_head(head)) return *early;
    api.handle({head, body}, reply_);
    return reply_.response.value_or(Response{0, {}});
  }

  const std::string body_ =
      R"({"model":"fake","max_tokens":20,"messages":[{"role":"user","content":"Hi"}])";
  FakeBackend backend_;
  ApiOptions options_;
  KeptReply reply_;
};

TEST_F(AnthropicApi, MessageOfAGeneration) {
  const Response response = answer("/v1/messages", body_ + R"(,"seed":5})");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.headers, ::testing::Contains(::testing::Pair("Request-Id", "req-1")));
  EXPECT_THAT(response.body,
              HasSubstr(R"("content":[{"type":"text","citations":null,"text":"one two three"}],)"
                        R"("stop_reason":"end_turn")"));
  EXPECT_THAT(response.body, HasSubstr(R"("input_tokens":3)"));
  EXPECT_THAT(response.body, HasSubstr(R"("seed":5)"));
  EXPECT_EQ(backend_.requests()[0].max_tokens, 20U);
}

TEST_F(AnthropicApi, StreamOfAGeneration) {
  backend_.words = {"<think>hm", "say", "<call>f {}"};
  answer("/v1/messages", body_ + R"(,"stream":true,"tools":[{"name":"f","input_schema":{}}]})");
  ASSERT_TRUE(reply_.is_stream);
  EXPECT_THAT(reply_.events, StartsWith("event: message_start\n"));
  EXPECT_THAT(reply_.events, HasSubstr(R"("delta":{"stop_reason":"tool_use")"));
  EXPECT_TRUE(
      reply_.events.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  EXPECT_THAT(reply_.events, Not(HasSubstr("[DONE]")));
}

TEST_F(AnthropicApi, TokensAreCounted) {
  const Response response =
      answer("/v1/messages/count_tokens",
             R"({"model":"fake","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(response.body, R"({"input_tokens":3})");
  EXPECT_TRUE(backend_.requests().empty());
}

TEST_F(AnthropicApi, ErrorsAreInItsShapeOnItsPathsAlone) {
  EXPECT_THAT(answer("/v1/messages", "{").body,
              StartsWith(R"({"type":"error","error":{"type":"invalid_request_error")"));
  EXPECT_THAT(
      answer("/v1/messages", body_ + R"(,"top_k":-1})").body,
      HasSubstr(
          R"("param":"top_k","code":"invalid_value","details":{"error_code":"invalid_value"}},"request_id":"req-1"})"));
  const Response unknown =
      answer("/v1/messages",
             R"({"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr(R"("type":"not_found_error")"));
  EXPECT_THAT(answer("/v1/messages/batches", "{}").body, HasSubstr(R"("type":"not_found_error")"));
  EXPECT_THAT(answer("/v1/elsewhere", "{}").body, StartsWith(R"({"error":{)"));
  options_.access.api_key = "secret";
  EXPECT_THAT(answer("/v1/messages", body_ + "}").body,
              HasSubstr(R"("type":"authentication_error")"));
  EXPECT_EQ(answer("/v1/messages", body_ + "}", "secret").status, 200);
}

// The fake backend renders a chat as JSON, which no reply can continue.
TEST_F(AnthropicApi, RefusesToContinueWhatTheTemplateEnds) {
  const Response response = answer(
      "/v1/messages",
      R"({"model":"fake","max_tokens":9,"messages":[{"role":"user","content":"Sun?"},{"role":"assistant","content":"It is"}]})");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("cannot continue"));
}

}  // namespace
}  // namespace ft::server
