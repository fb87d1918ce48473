#include "server/api.h"

#include "json/json.h"
#include "server/fake_backend_test_data.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace ft::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ApiTest : public ::testing::Test {
 protected:
  RequestHead head(const std::string& method, const std::string& path) const {
    RequestHead out;
    out.id = "req-1";
    out.method = method;
    out.path = path;
    out.host = "127.0.0.1:8080";
    return out;
  }
  Response answer(const RequestHead& asked, const std::string& body = {}) {
    if (auto early = api_.answer_head(asked)) return *early;
    reply_ = KeptReply();
    api_.handle({asked, body}, reply_);
    return reply_.response.value_or(Response{0, {}});
  }
  json::Value post(const std::string& path, const std::string& body, int status = 200) {
    const Response response = answer(head("POST", path), body);
    EXPECT_EQ(response.status, status) << response.body;
    return json::parse(response.body, "reply");
  }
  std::vector<std::string> stream(const std::string& path, const std::string& body) {
    answer(head("POST", path), body);
    EXPECT_TRUE(reply_.is_stream);
    std::vector<std::string> out;
    std::string_view rest = reply_.events;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("data: ") || rest.starts_with(": ")) << rest;
      if (rest.starts_with("data: ")) out.emplace_back(rest.substr(6, end - 6));
      rest.remove_prefix(end + 2);
    }
    return out;
  }

  static ApiOptions with_key() {
    ApiOptions options;
    options.access.api_key = "secret";
    options.access.allowed_origins = {"https://page.example"};
    return options;
  }

  FakeBackend backend_;
  Api api_{backend_, {}, std::make_shared<const SteadyClock>()};
  KeptReply reply_;
};

const std::string kChat = R"("messages":[{"role":"user","content":"Hi"}])";

TEST_F(ApiTest, ChatReplyHasTextUsageTimingsAndSeed) {
  const json::Value reply = post("/v1/chat/completions", "{" + kChat + ",\"seed\":7}");
  EXPECT_EQ(reply.find("object")->as_string(""), "chat.completion");
  EXPECT_EQ(reply.find("model")->as_string(""), "fake");
  const json::Value& choice = reply.find("choices")->as_array("")[0];
  EXPECT_EQ(choice.find("message")->find("content")->as_string(""), "one two three");
  EXPECT_EQ(choice.find("finish_reason")->as_string(""), "stop");
  EXPECT_EQ(choice.find("seed")->as_integer(""), 7);
  EXPECT_NE(choice.find("timings")->find("predicted_per_second"), nullptr);
  EXPECT_EQ(reply.find("usage")->find("prompt_tokens")->as_integer(""), 3);
  EXPECT_EQ(reply.find("usage")->find("completion_tokens")->as_integer(""), 4);
}

TEST_F(ApiTest, ChatStreamIsWhatTheSdkExpects) {
  const auto events =
      stream("/v1/chat/completions",
             "{" + kChat + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  ASSERT_EQ(events.size(), 7U);
  EXPECT_THAT(events[0], HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  EXPECT_THAT(events[1], HasSubstr(R"("delta":{"content":"one"})"));
  EXPECT_THAT(events[3],
              HasSubstr(R"("delta":{"content":" three"},"logprobs":null,"finish_reason":null)"));
  EXPECT_THAT(events[4], HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(events[5],
              HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4)"));
  EXPECT_EQ(events[6], "[DONE]");
}

TEST_F(ApiTest, StreamHasRoundsIfTheyAreAskedFor) {
  const auto events =
      stream("/v1/chat/completions",
             "{" + kChat + R"(,"stream":true,"stream_options":{"include_rounds":true}})");
  std::size_t n_rounds = 0;
  for (const std::string& text : events) {
    const std::size_t at =
        text.find(R"("choices":[],"foretoken":{"index":0,"rounds":[{"round":4,)");
    if (at == std::string::npos) continue;
    const json::Value chunk = json::parse(text, "chunk");
    n_rounds += chunk.find("foretoken")->find("rounds")->as_array("").size();
  }
  EXPECT_EQ(n_rounds, 4U);  // one per token of the fake, the end of the text included
  EXPECT_THAT(events[events.size() - 2], HasSubstr(R"("finish_reason":"stop")"));
  post("/v1/chat/completions", "{" + kChat + "}");
  EXPECT_FALSE(backend_.requests().back().trace);
}

TEST_F(ApiTest, ServesItsPageToAnybodyWhoMayAskAtAll) {
  Api guarded(backend_, with_key(), std::make_shared<const SteadyClock>());
  EXPECT_FALSE(guarded.answer_head(head("GET", "/")).has_value());
  RequestHead asked = head("GET", "/page/main.js");
  const Response script = answer(asked);
  EXPECT_EQ(script.status, 200);
  EXPECT_EQ(script.content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(script.headers[0].first, "ETag");
  asked.if_none_match = script.headers[0].second;
  EXPECT_EQ(answer(asked).status, 304);
  EXPECT_EQ(answer(asked).body, "");
  for (const char* path : {"/page/", "/page/nothing.js", "/page/../page/main.js", "/index.html"}) {
    EXPECT_EQ(answer(head("GET", path)).status, 404) << path;
  }
  EXPECT_EQ(answer(head("POST", "/")).status, 405);
  asked.host = "elsewhere.example";
  EXPECT_EQ(answer(asked).status, 403);
}

TEST_F(ApiTest, StreamWithoutUsageHasNoUsageChunk) {
  const auto events = stream("/v1/completions", R"({"prompt":"x","stream":true})");
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(events[0], HasSubstr(R"("object":"text_completion")"));
  EXPECT_THAT(events[0], HasSubstr(R"("text":"one")"));
  EXPECT_EQ(events[4], "[DONE]");
  for (const std::string& text : events) EXPECT_THAT(text, Not(HasSubstr("usage")));
}

TEST_F(ApiTest, ReasoningAndCallsStandApartFromContent) {
  backend_.words = {"<think>Hm", "<think>.", "I ask.", "<call>f {\"x\":1}", "<call>g {}"};
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f"}}],"logprobs":true)";
  const json::Value reply = post("/v1/chat/completions", "{" + kChat + "," + tools + "}");
  const json::Value& choice = reply.find("choices")->as_array("")[0];
  const json::Value& message = *choice.find("message");
  EXPECT_EQ(message.find("reasoning_content")->as_string(""), "Hm.");
  EXPECT_EQ(message.find("content")->as_string(""), "I ask.");
  const json::Array& calls = message.find("tool_calls")->as_array("");
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].find("id")->as_string(""), "call_req-1_0_0");
  EXPECT_EQ(calls[0].find("type")->as_string(""), "function");
  EXPECT_EQ(calls[0].find("function")->find("name")->as_string(""), "f");
  EXPECT_EQ(calls[0].find("function")->find("arguments")->as_string(""), "{\"x\":1}");
  EXPECT_EQ(calls[1].find("id")->as_string(""), "call_req-1_0_1");
  EXPECT_EQ(choice.find("finish_reason")->as_string(""), "tool_calls");
  EXPECT_EQ(choice.find("logprobs")->find("content")->as_array("").size(), 5U);
  EXPECT_EQ(reply.find("usage")
                ->find("completion_tokens_details")
                ->find("reasoning_tokens")
                ->as_integer(""),
            2);
}

TEST_F(ApiTest, CallsAloneHaveNoContent) {
  backend_.words = {"<call>f {}"};
  const json::Value reply =
      post("/v1/chat/completions",
           "{" + kChat + R"(,"tools":[{"type":"function","function":{"name":"f"}}]})");
  const json::Value& message = *reply.find("choices")->as_array("")[0].find("message");
  EXPECT_TRUE(message.find("content")->is_null());
  EXPECT_EQ(message.find("reasoning_content"), nullptr);
}

TEST_F(ApiTest, CallsStreamAsTheSdkExpects) {
  backend_.words = {"<think>Hm", "<call>f {\"x\":1}"};
  const auto events = stream(
      "/v1/chat/completions",
      "{" + kChat + R"(,"stream":true,"tools":[{"type":"function","function":{"name":"f"}}]})");
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(events[1], HasSubstr(R"("delta":{"reasoning_content":"Hm"})"));
  EXPECT_THAT(
      events[2],
      HasSubstr(
          R"("delta":{"tool_calls":[{"index":0,"id":"call_req-1_0_0","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]})"));
  EXPECT_THAT(events[3], HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST_F(ApiTest, ResponsesAreServedWholeAndInAStream) {
  backend_.words = {"<think>Hm", "Hi"};
  const json::Value reply = post("/v1/responses", R"({"input":"Hi","max_output_tokens":9})");
  EXPECT_EQ(reply.find("id")->as_string(""), "resp_req-1");
  EXPECT_EQ(reply.find("model")->as_string(""), "fake");
  EXPECT_EQ(reply.find("status")->as_string(""), "completed");
  EXPECT_EQ(reply.find("output")->as_array("").size(), 2U);
  EXPECT_EQ(reply.find("usage")->find("output_tokens")->as_integer(""), 3);
  EXPECT_EQ(backend_.requests()[0].max_tokens, 9U);

  answer(head("POST", "/v1/responses"), R"({"input":"Hi","stream":true})");
  EXPECT_THAT(reply_.events, StartsWith("event: response.created\ndata: {"));
  EXPECT_THAT(reply_.events, HasSubstr("\n\nevent: response.completed\ndata: {"));
  EXPECT_THAT(reply_.events, Not(HasSubstr("[DONE]")));

  const json::Value refused = post("/v1/responses", R"({"input":"Hi","messages":[]})", 400);
  EXPECT_EQ(refused.find("error")->find("param")->as_string(""), "messages");
}

TEST_F(ApiTest, ChoicesHaveSeedsThatFollowEachOther) {
  const json::Value reply = post("/v1/completions", R"({"prompt":["a","bb"],"n":2})");
  const json::Array& choices = reply.find("choices")->as_array("");
  ASSERT_EQ(choices.size(), 4U);
  EXPECT_EQ(choices[1].find("seed")->as_integer(""), choices[0].find("seed")->as_integer("") + 1);
  EXPECT_EQ(choices[3].find("index")->as_integer(""), 3);
  EXPECT_EQ(reply.find("usage")->find("prompt_tokens")->as_integer(""), 3);
  const json::Value seeded = post("/v1/completions", R"({"prompt":"a","n":3,"seed":7})");
  EXPECT_EQ(seeded.find("choices")->as_array("")[2].find("seed")->as_integer(""), 9);
}

TEST_F(ApiTest, ChoicesRunTogether) {
  backend_.n_meeting = 3;
  const std::string request = R"("prompt":"x","n":3)";
  EXPECT_EQ(post("/v1/completions", "{" + request + "}").find("choices")->as_array("").size(), 3U);
  backend_.n_met = 0;
  const auto events = stream("/v1/completions", "{" + request + R"(,"stream":true})");
  ASSERT_EQ(events.size(), 13U);
  for (int choice = 0; choice < 3; ++choice) {
    std::string text;
    for (const std::string& event : events) {
      if (event == "[DONE]") continue;
      const json::Value chunk = json::parse(event, "event");
      const json::Value& part = chunk.find("choices")->as_array("")[0];
      if (part.find("index")->as_integer("") == choice) text += part.find("text")->as_string("");
    }
    EXPECT_EQ(text, "one two three");
  }
}

TEST_F(ApiTest, FailureInAStreamIsItsLastEvent) {
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"/v1/completions", R"("prompt":"a")"},
      {"/v1/chat/completions", kChat},
      {"/v1/responses", R"("input":"a")"},
      {"/v1/messages", R"("model":"fake","max_tokens":9,)" + kChat}};
  for (const auto& [path, members] : requests) {
    backend_.failing = static_cast<int>(backend_.requests().size());
    answer(head("POST", path), R"({"stream":true,)" + members + "}");
    EXPECT_TRUE(reply_.is_stream) << path;
    EXPECT_THAT(reply_.events, HasSubstr("the model could not be run")) << path;
    EXPECT_THAT(reply_.events, ::testing::EndsWith("}\n\n"));
    EXPECT_EQ(reply_.events.find("[DONE]"), std::string::npos);
  }
}

TEST_F(ApiTest, ChoiceThatFailsEndsTheOthers) {
  backend_.is_endless = true;
  backend_.failing = 1;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"x","n":3,"max_tokens":60})", 500)
                .find("error")
                ->find("code")
                ->as_string(""),
            "internal_error");
  EXPECT_EQ(backend_.n_open, 0);
}

TEST_F(ApiTest, LogprobsLeaveOutTheEndOfText) {
  const json::Value reply =
      post("/v1/chat/completions", "{" + kChat + R"(,"logprobs":true,"top_logprobs":1})");
  const json::Array& content =
      reply.find("choices")->as_array("")[0].find("logprobs")->find("content")->as_array("");
  ASSERT_EQ(content.size(), 3U);
  EXPECT_EQ(content[1].find("token")->as_string(""), " two");
  EXPECT_EQ(content[1].find("bytes")->as_array("").size(), 4U);
  EXPECT_EQ(content[1].find("top_logprobs")->as_array("").size(), 1U);
  const json::Value legacy = post("/v1/completions", R"({"prompt":"a","logprobs":1})");
  const json::Value& probs = *legacy.find("choices")->as_array("")[0].find("logprobs");
  EXPECT_EQ(probs.find("tokens")->as_array("").size(), 3U);
  EXPECT_EQ(probs.find("text_offset")->as_array("")[2].as_integer(""), 7);
}

TEST_F(ApiTest, TokenLimitIsClampedToTheContextInBothModes) {
  post("/v1/completions", R"({"prompt":"abcd","max_tokens":32000})");
  stream("/v1/completions", R"({"prompt":"abcd","max_tokens":32000,"stream":true})");
  post("/v1/chat/completions", "{" + kChat + "}");
  post("/v1/completions", R"({"prompt":"abcd"})");
  const auto requests = backend_.requests();
  EXPECT_EQ(requests[0].max_tokens, 61U);
  EXPECT_EQ(requests[1].max_tokens, 61U);
  EXPECT_EQ(requests[2].max_tokens, 62U);
  EXPECT_EQ(requests[3].max_tokens, 16U);
}

TEST_F(ApiTest, EchoRepeatsThePrompt) {
  const auto text = [](const json::Value& reply) {
    return reply.find("choices")->as_array("")[0].find("text")->as_string("");
  };
  EXPECT_EQ(text(post("/v1/completions", R"({"prompt":"ab ","echo":true})")), "ab one two three");
  EXPECT_EQ(text(post("/v1/completions", R"({"prompt":[0,1],"echo":true,"max_tokens":0})")),
            "one two");
}

TEST_F(ApiTest, RefusesWithStatusParamAndCode) {
  const auto param = [this](const std::string& path, const std::string& body, int status = 400) {
    const json::Value reply = post(path, body, status);
    const json::Value& error = *reply.find("error");
    return error.find("param")->is_null() ? std::string() : error.find("param")->as_string("");
  };
  EXPECT_EQ(param("/v1/completions", R"({"prompt":"a","model":"gpt"})", 404), "model");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":"a","speculate":"magic"})"), "speculate");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":"a","speculate":"prediction"})"), "speculate");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":"a","logit_bias":{"100":1}})"), "logit_bias");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":[100]})"), "prompt");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":""})"), "prompt");
  EXPECT_EQ(param("/v1/completions", R"({"prompt":")" + std::string(65, 'a') + R"("})"), "prompt");
  EXPECT_EQ(param("/v1/completions", "{"), "");
  EXPECT_EQ(param("/v1/chat/completions",
                  "{" + kChat + R"(,"tools":[{"type":"function","function":{}}]})"),
            "tools[0].function.name");
  EXPECT_TRUE(backend_.requests().empty());
}

TEST_F(ApiTest, RoutesAndMethods) {
  EXPECT_EQ(answer(head("GET", "/health")).body, R"({"status":"ok"})");
  EXPECT_EQ(answer(head("GET", "/nothing")).status, 404);
  EXPECT_EQ(answer(head("GET", "/v1/chat/completions")).status, 405);
  EXPECT_EQ(answer(head("DELETE", "/v1/models")).status, 405);
  EXPECT_EQ(answer(head("GET", "/v1/models/fake")).status, 200);
  EXPECT_EQ(answer(head("GET", "/v1/models/other")).status, 404);
  const std::string models = answer(head("GET", "/v1/models")).body;
  EXPECT_THAT(models, HasSubstr(R"("id":"fake","object":"model")"));
  EXPECT_THAT(models, HasSubstr(R"("type":"model","display_name":"fake","created_at":"20)"));
  EXPECT_THAT(models, HasSubstr(R"("has_more":false,"first_id":"fake","last_id":"fake"})"));
  RequestHead form = head("POST", "/v1/completions");
  form.content_type = "text/plain";
  EXPECT_EQ(answer(form, "{}").status, 415);
  EXPECT_EQ(post("/tokenize", R"({"content":"abc"})").find("count")->as_integer(""), 3);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[0,1]})").find("content")->as_string(""), "one two");
}

// Where no path says which API it is, the client's headers do.
TEST_F(ApiTest, ErrorsHaveTheShapeThatTheClientKnows) {
  const auto refusal = [this](Api& api, RequestHead asked) {
    std::optional<Response> early = api.answer_head(asked);
    if (early) return *early;
    reply_ = KeptReply();
    api.handle({std::move(asked), {}}, reply_);
    return *reply_.response;
  };
  Api guarded(backend_, with_key(), std::make_shared<const SteadyClock>());
  RequestHead stranger = head("GET", "/v1/models");
  stranger.host = "evil.example";
  RequestHead page = head("GET", "/v1/models");
  page.origin = "https://evil.example";
  struct Case {
    Api& api;
    RequestHead head;
    int status;
    std::string type;  // Anthropic's
  };
  const std::vector<Case> cases = {
      {api_, head("GET", "/v1/models/other"), 404, "not_found_error"},
      {api_, head("GET", "/v1/nothing"), 404, "not_found_error"},
      {api_, head("DELETE", "/v1/models"), 405, "invalid_request_error"},
      {api_, head("POST", "/tokenize"), 400, "invalid_request_error"},
      {api_, stranger, 403, "permission_error"},
      {api_, page, 403, "permission_error"},
      {guarded, head("GET", "/v1/models"), 401, "authentication_error"},
      {guarded, head("GET", "/v1/nothing"), 401, "authentication_error"}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.head.method + " " + each.head.path + " " + std::to_string(each.status));
    const Response openai = refusal(each.api, each.head);
    EXPECT_EQ(openai.status, each.status);
    EXPECT_THAT(openai.body, StartsWith(R"({"error":{"message":")"));
    RequestHead versioned = each.head;
    versioned.anthropic_version = "2023-06-01";
    RequestHead keyed = each.head;
    keyed.api_key = "guessed";
    for (const RequestHead& asked : {versioned, keyed}) {
      const Response anthropic = refusal(each.api, asked);
      EXPECT_EQ(anthropic.status, each.status);
      EXPECT_THAT(anthropic.body, StartsWith(R"({"type":"error","error":{"type":")" + each.type));
      EXPECT_THAT(anthropic.headers, Contains(std::pair("Request-Id", "req-1")));
    }
  }
}

// It is the path that says what a client expects, whatever else it sends.
TEST_F(ApiTest, ErrorsOfAPathOfOneApiHaveItsShape) {
  RequestHead chat = head("POST", "/v1/chat/completions");
  chat.api_key = "k";
  EXPECT_THAT(answer(chat, "{").body, StartsWith(R"({"error":{"message":")"));
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    EXPECT_THAT(answer(head("POST", path), "{").body, StartsWith(R"({"type":"error")")) << path;
    EXPECT_THAT(answer(head("GET", path)).body, StartsWith(R"({"type":"error")")) << path;
  }
}

TEST_F(ApiTest, ModelIsFoundUnderItsEscapedName) {
  ApiOptions options;
  options.model_name = "org/one model%";
  Api api(backend_, options, std::make_shared<const SteadyClock>());
  const auto status = [&](const std::string& name) {
    api.handle({head("GET", "/v1/models/" + name), {}}, reply_);
    return std::exchange(reply_, KeptReply()).response->status;
  };
  EXPECT_EQ(status("org%2Fone%20model%25"), 200);
  EXPECT_EQ(status("org/one%20model%"), 200);
  EXPECT_EQ(status("org%2fone%20model%2"), 404);
  EXPECT_EQ(status("org%2Fone%-20model%"), 404);
}

TEST_F(ApiTest, ClientThatLeavesCancels) {
  backend_.is_endless = true;
  reply_.leave();
  api_.handle({head("POST", "/v1/completions"), R"({"prompt":"a","max_tokens":50})"}, reply_);
  EXPECT_EQ(reply_.response->status, 503);
  EXPECT_EQ(backend_.n_open, 0);
}

TEST_F(ApiTest, MetricsCountWhatHappened) {
  post("/v1/completions", R"({"prompt":"a"})");
  const std::string text = answer(head("GET", "/metrics")).body;
  EXPECT_THAT(text, HasSubstr("foretoken:generation_tokens_total{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("foretoken:num_requests_running{model_name=\"fake\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("foretoken:kv_cache_positions{model_name=\"fake\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("foretoken:time_to_first_token_seconds_count{model_name=\"fake\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("foretoken:inter_token_latency_seconds_count{model_name=\"fake\"} 3\n"));
}

// Caches for two requests of 64 positions; this one has fed three and got the first of its tokens.
TEST_F(ApiTest, MetricsSeeTheCachesOfAllRequestsAtOnce) {
  struct LookingReply : KeptReply {
    explicit LookingReply(std::function<std::string()> metrics) : look(std::move(metrics)) {}
    bool write(std::string_view text) override {
      if (text.find("one") != std::string_view::npos) seen = look();
      return KeptReply::write(text);
    }
    std::function<std::string()> look;
    std::string seen;
  };
  LookingReply reply([this] { return answer(head("GET", "/metrics")).body; });
  api_.handle({head("POST", "/v1/chat/completions"), "{" + kChat + R"(,"stream":true})"}, reply);
  EXPECT_THAT(reply.seen, HasSubstr("foretoken:kv_cache_positions{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(reply.seen,
              HasSubstr("foretoken:kv_cache_usage_perc{model_name=\"fake\"} 0.03125\n"));
}

TEST_F(ApiTest, KeyHostAndOriginDecideWhoMayAsk) {
  Api api(backend_, with_key(), std::make_shared<const SteadyClock>());
  const auto status = [&](const RequestHead& asked) {
    const auto early = api.answer_head(asked);
    return early ? early->status : 0;
  };
  RequestHead models = head("GET", "/v1/models");
  EXPECT_EQ(status(models), 401);
  models.authorization = "Bearer secreT";
  EXPECT_EQ(status(models), 401);
  models.authorization = "Bearer secret";
  EXPECT_EQ(status(models), 0);
  models.authorization.clear();
  models.api_key = "secret";
  EXPECT_EQ(status(models), 0);
  models.host = "evil.example";
  EXPECT_EQ(status(models), 403);
  models.host = "LOCALHOST:1";
  EXPECT_EQ(status(models), 0);
  models.origin = "https://evil.example";
  EXPECT_EQ(status(models), 403);
  models.origin = "https://page.example";
  EXPECT_EQ(status(models), 0);
  EXPECT_EQ(status(head("GET", "/health")), 0);
  EXPECT_EQ(status(head("GET", "/nothing")), 401);
  RequestHead preflight = head("OPTIONS", "/v1/chat/completions");
  preflight.origin = "https://page.example";
  EXPECT_EQ(status(preflight), 204);
}

TEST(SameSecret, ComparesWholeTexts) {
  EXPECT_TRUE(is_same_secret("abc", "abc"));
  EXPECT_FALSE(is_same_secret("", "abc"));
  EXPECT_FALSE(is_same_secret("abcabc", "abc"));
  EXPECT_FALSE(is_same_secret("ab", "abc"));
  EXPECT_TRUE(is_same_secret("", ""));
  EXPECT_FALSE(is_same_secret("a", ""));
  EXPECT_EQ(without_port("[::1]:80"), "[::1]");
  EXPECT_EQ(without_port("[::1]"), "[::1]");
  EXPECT_EQ(without_port("a:1"), "a");
}

}  // namespace
}  // namespace ft::server
