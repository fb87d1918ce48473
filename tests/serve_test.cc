// foretoken serve as a user runs it: raw sockets against the model that ships.
#include "json/json.h"
#include "program.h"
#include "server/hostile_clients_test_data.h"
#include "server/http_client_test_data.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::e2e {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string post(const std::string& path, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: "
      "{}\r\n\r\n{}",
      path,
      body.size(),
      body);
}

json::Value body_of(const std::string& reply) {
  return json::parse(std::string_view(reply).substr(reply.find("\r\n\r\n") + 4), "reply");
}

std::uint16_t port_of(Program& server) {
  if (!server.wait_for_output(std::string("http://127.0.0.1:0\n").size())) return 0;
  // The line is written in one piece.
  const std::string line = server.output();
  EXPECT_THAT(line, StartsWith("http://127.0.0.1:"));
  return static_cast<std::uint16_t>(std::strtoul(line.c_str() + 17, nullptr, 10));
}

std::string text_of(const std::string& reply) {
  return body_of(reply).find("choices")->as_array("")[0].find("text")->as_string("");
}

TEST(Serve, GivesTheTextThatGenerateGives) {
  Program server({"serve", "--port", "0", "--api-key", "k", "--quiet", "--context", "512"});
  server::TestClient client(port_of(server));
  const std::string prompt = fmt::format("{0}{0}", kStory);
  const std::string story =
      post("/v1/completions",
           fmt::format(R"({{"prompt":"{}","max_tokens":24,"temperature":0,"speculate":"mtp"}})",
                       prompt));
  client.send(story);
  const std::string text = text_of(client.read_reply());
  client.send(story);
  const std::string again = client.read_reply();
  EXPECT_EQ(text_of(again), text);
  EXPECT_THAT(again, Not(HasSubstr(R"("cached_tokens":0)"))) << "the prompt was fed twice";
  const ProgramResult plain = run_program({"generate",
                                           "--prompt",
                                           prompt,
                                           "-n",
                                           "24",
                                           "--temperature",
                                           "0",
                                           "--speculate",
                                           "none",
                                           "--context",
                                           "512",
                                           "--quiet"});
  EXPECT_EQ(text, plain.out);
  EXPECT_FALSE(text.empty());

  client.send(post("/v1/chat/completions",
                   R"({"messages":[{"role":"user","content":"Tell me a story about a wolf."}],)"
                   R"("enable_thinking":false,"max_tokens":24,"temperature":0,"stream":true,)"
                   R"("stream_options":{"include_usage":true}})"));
  const std::string stream = client.read_reply();
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  EXPECT_THAT(stream, HasSubstr(R"("usage":{"prompt_tokens":)"));
  EXPECT_THAT(stream, EndsWith("data: [DONE]\n\n"));

  client.send(post("/v1/completions", R"({"prompt":"a","max_tokens":0})"));
  EXPECT_THAT(client.read_reply(), StartsWith("HTTP/1.1 400"));
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_reply(), StartsWith("HTTP/1.1 401"));

  server.interrupt();
  EXPECT_EQ(server.finish().status, 0);
}

// The JSON of a reply to a post, which must have status 200.
json::Value answered(server::TestClient& client, const std::string& body) {
  client.send(post("/v1/chat/completions", body));
  const std::string reply = client.read_reply();
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200"));
  return body_of(reply);
}

TEST(Serve, ToolIsCalledAndItsResultUsed) {
  Program server({"serve", "--port", "0", "--api-key", "k", "--quiet", "--context", "512"});
  server::TestClient client(port_of(server));
  const std::string tools =
      R"("temperature":0,"tools":[{"type":"function","function":{"name":"get_weather",)"
      R"("description":"d","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}])";
  const std::string question = R"({"role":"user","content":"What is the weather in Oslo?"})";
  for (const bool thinks : {false, true}) {
    const std::string rest = fmt::format(R"(,{},"enable_thinking":{}}})", tools, thinks);
    const json::Value asked =
        answered(client, fmt::format(R"({{"messages":[{}]{})", question, rest));
    const json::Value& choice = asked.find("choices")->as_array("")[0];
    EXPECT_EQ(choice.find("finish_reason")->as_string(""), "tool_calls");
    const json::Value& message = *choice.find("message");
    EXPECT_TRUE(message.find("content")->is_null());
    EXPECT_EQ(message.find("reasoning_content") != nullptr, thinks);
    const json::Array& calls = message.find("tool_calls")->as_array("");
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0].find("function")->find("name")->as_string(""), "get_weather");
    EXPECT_EQ(calls[0].find("function")->find("arguments")->as_string(""), R"({"city":"Oslo"})");
    // The message goes back as it came.
    json::Writer said;
    said.value(message);
    const json::Value told = answered(
        client,
        fmt::format(
            R"({{"messages":[{},{},{{"role":"tool","tool_call_id":"{}","content":"12 degrees, rainy"}}]{})",
            question,
            said.text(),
            calls[0].find("id")->as_string(""),
            rest));
    EXPECT_EQ(told.find("choices")->as_array("")[0].find("message")->find("content")->as_string(""),
              "It is 12 degrees, rainy in Oslo.");
  }
}

std::string metrics(server::TestClient& client) {
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n");
  return client.read_reply();
}

double metric(const std::string& text, const std::string& name) {
  const std::string line = fmt::format("\nforetoken:{}{{model_name=\"glm-mini\"}} ", name);
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + line.size(), nullptr);
}

TEST(Serve, CacheUsageIsAShareOfAllSessions) {
  Program server(
      {"serve", "--port", "0", "--api-key", "k", "--quiet", "--context", "512", "--sessions", "3"});
  const std::uint16_t port = port_of(server);
  server::TestClient scraper(port);
  EXPECT_EQ(metric(metrics(scraper), "kv_cache_usage_perc"), 0);
  // Far more than fits between the server and a client that does not read: it stays.
  server::TestClient client(port);
  client.send(post("/v1/completions",
                   R"({"prompt":"Once","max_tokens":500,"n":16,"ignore_eos":true,"seed":1,)"
                   R"("logprobs":20,"stream":true})"));
  client.read_until("data: ");
  const std::string text = metrics(scraper);
  EXPECT_GT(metric(text, "kv_cache_positions"), 0);
  EXPECT_NEAR(
      metric(text, "kv_cache_usage_perc"), metric(text, "kv_cache_positions") / (3 * 512), 1e-6);
  client.close();
  while (metric(metrics(scraper), "num_requests_running") > 0) {
  }
  EXPECT_EQ(metric(metrics(scraper), "kv_cache_usage_perc"), 0);
  server.interrupt();
  EXPECT_EQ(server.finish().status, 0);
}

TEST(Serve, SessionsThatRunTogetherGetTheTextsTheyGetAlone) {
  Program server(
      {"serve", "--port", "0", "--api-key", "k", "--quiet", "--context", "512", "--sessions", "3"});
  const std::uint16_t port = port_of(server);
  const auto request = [](int seed) {
    return post("/v1/completions",
                fmt::format(R"({{"prompt":"{}","max_tokens":{},"temperature":0.8,"seed":{}}})",
                            kStory,
                            60 + 40 * seed,
                            seed));
  };
  std::vector<std::string> alone;
  for (int seed = 0; seed < 3; ++seed) {
    server::TestClient client(port);
    client.send(request(seed));
    alone.push_back(text_of(client.read_reply()));
    EXPECT_FALSE(alone.back().empty());
  }
  std::vector<server::TestClient> together;
  for (int seed = 0; seed < 3; ++seed) {
    together.emplace_back(port);
    together.back().send(request(seed));
  }
  for (std::size_t seed = 0; seed < 3; ++seed)
    EXPECT_EQ(text_of(together[seed].read_reply()), alone[seed]) << seed;
  server.interrupt();
  EXPECT_EQ(server.finish().status, 0);
}

// Queued ones that leave are among them.
TEST(Serve, ClientsThatMisbehaveDisturbNobody) {
  Program server(
      {"serve", "--port", "0", "--quiet", "--context", "256", "--sessions", "2", "-n", "16"});
  const std::uint16_t port = port_of(server);
  const auto ask = [port] {
    server::TestClient client(port);
    client.send(post("/v1/completions", R"({"prompt":"Once","temperature":0.8,"seed":1})"));
    return text_of(client.read_reply());
  };
  const std::string alone = ask();
  server::HostileClients clients(port, 30, 1, "Host: localhost\r\n");
  std::atomic<bool> is_over = false;
  std::thread well_behaved([&] {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(), alone);
    is_over = true;
  });
  for (int i = 0; i < 2'000 || !is_over; ++i) clients.step();
  well_behaved.join();
  clients.leave();
  std::string metrics;
  for (int i = 0;
       i < 1'000 && metrics.find("waiting{model_name=\"glm-mini\"} 0\n") == std::string::npos;
       ++i) {
    server::TestClient client(port);
    client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    metrics = client.read_reply();
  }
  EXPECT_EQ(ask(), alone);
  server.interrupt();
  EXPECT_EQ(server.finish().status, 0);
}

TEST(Serve, LogsRequestsButNoTextAndNoKey) {
  Program server({"serve",
                  "--port",
                  "0",
                  "--api-key",
                  "k-secret",
                  "--context",
                  "256",
                  "--log-format",
                  "json"});
  server::TestClient client(port_of(server));
  const std::string body = R"({"prompt":"Once upon a time","max_tokens":8,"temperature":0})";
  client.send(
      fmt::format("POST /v1/completions?k-secret HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: "
                  "mine\r\nAuthorization: Bearer k-secret\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(),
                  body));
  const std::string text = text_of(client.read_reply());
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k-wrong\r\n\r\n");
  EXPECT_THAT(client.read_reply(), StartsWith("HTTP/1.1 401"));
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_reply();  // what was asked before is in the log now
  server.interrupt();
  const ProgramResult result = server.finish();
  std::vector<json::Value> lines;
  for (std::istringstream in(result.err); !in.eof();) {
    std::string line;
    if (std::getline(in, line)) lines.push_back(json::parse(line, "log line"));
  }
  const auto text_at = [&](std::size_t i, std::string_view key) {
    return lines.at(i).find(key)->as_string("");
  };
  ASSERT_EQ(lines.size(), 4U) << result.err;
  EXPECT_THAT(text_at(0, "message"), StartsWith("serving 'glm-mini' on http://127.0.0.1:"));
  EXPECT_EQ(text_at(1, "id"), "mine");
  EXPECT_EQ(text_at(1, "path"), "/v1/completions");
  EXPECT_EQ(lines[1].find("completion_tokens")->as_integer(""), 8);
  EXPECT_EQ(text_at(1, "finish_reason"), "length");
  EXPECT_EQ(text_at(2, "level"), "warning");
  EXPECT_EQ(lines[2].find("status")->as_integer(""), 401);
  for (const std::string& hidden : {text, std::string("Once"), std::string("k-")})
    EXPECT_EQ(result.err.find(hidden), std::string::npos) << hidden;
}

TEST(Serve, RefusesToLetOthersInWithoutAKey) {
  expect_refused(run_program({"serve", "--host", "0.0.0.0"}), "--api-key");
}

}  // namespace
}  // namespace ft::e2e
