// foretoken serve as a user runs it: raw sockets against the model that ships.
#include "json/json.h"
#include "program.h"
#include "server/http_client_test_data.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::e2e {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
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

TEST(Serve, GivesTheTextThatGenerateGives) {
  Program server({"serve", "--port", "0", "--api-key", "k", "--quiet", "--context", "512"});
  ASSERT_TRUE(server.wait_for_output(std::string("http://127.0.0.1:0\n").size()));
  std::uint16_t port = 0;
  {
    // The line is written in one piece.
    const std::string line = server.output();
    ASSERT_THAT(line, StartsWith("http://127.0.0.1:"));
    port = static_cast<std::uint16_t>(std::strtoul(line.c_str() + 17, nullptr, 10));
  }
  server::TestClient client(port);
  client.send(
      post("/v1/completions",
           fmt::format(R"({{"prompt":"{}","max_tokens":24,"temperature":0,"speculate":"mtp"}})",
                       kStory)));
  const std::string text =
      body_of(client.read_reply()).find("choices")->as_array("")[0].find("text")->as_string("");
  const ProgramResult plain = run_program({"generate",
                                           "--prompt",
                                           std::string(kStory),
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

TEST(Serve, RefusesToLetOthersInWithoutAKey) {
  expect_refused(run_program({"serve", "--host", "0.0.0.0"}), "--api-key");
}

}  // namespace
}  // namespace ft::e2e
