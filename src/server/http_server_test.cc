// The transport on a loopback port, with the API on a fake backend behind it.
#include "server/http_server.h"

#include "server/api.h"
#include "server/fake_backend_test_data.h"
#include "server/http_client_test_data.h"

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

namespace ft::server {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(const std::string& path,
                 const std::string& body,
                 const std::string& headers = {}) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

class HttpServerTest : public ::testing::Test {
 protected:
  ~HttpServerTest() override { stop(milliseconds(0)); }

  void start(HttpOptions options = {}) {
    options.port = 0;
    api_.emplace(backend_, ApiOptions{}, std::make_shared<const SteadyClock>());
    if (!options.on_request) {
      options.on_request = [this](const RequestRecord& record) { api_->on_request(record); };
    }
    server_.emplace(options, *api_);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop(milliseconds grace) {
    if (!thread_.joinable()) return;
    server_->stop(grace);
    thread_.join();
    server_.reset();
    EXPECT_EQ(backend_.n_open, 0);
  }
  TestClient client() const { return TestClient(server_->port()); }
  std::string ask(const std::string& request) const {
    TestClient connection = client();
    connection.send(request);
    return connection.read_reply();
  }
  void expect_alive() { EXPECT_THAT(ask(kHealth), StartsWith("HTTP/1.1 200 OK\r\n")); }
  // The generation of a client that left ends soon; a bound for tests that fail.
  void wait_until_free() {
    for (int i = 0; i < 5000 && backend_.n_open > 0; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(backend_.n_open, 0);
  }

  FakeBackend backend_;
  std::optional<Api> api_;
  std::optional<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, KeepsConnectionsForTheNextRequest) {
  start();
  TestClient connection = client();
  for (int i = 0; i < 3; ++i) {
    connection.send(kHealth);
    EXPECT_THAT(connection.read_reply(), HasSubstr(R"({"status":"ok"})"));
  }
  connection.send(kHealth + kHealth);  // sent ahead
  EXPECT_THAT(connection.read_reply(), HasSubstr("ok"));
  EXPECT_THAT(connection.read_reply(), HasSubstr("ok"));
  connection.send(post("/v1/completions", R"({"prompt":"a"})") + kHealth);
  EXPECT_THAT(connection.read_reply(), HasSubstr("one two three"));
  EXPECT_THAT(connection.read_reply(), HasSubstr("ok"));
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  TestClient connection = client();
  connection.send(
      post("/v1/completions", R"({"prompt":"a","stream":true})", "X-Request-Id: mine\r\n"));
  const std::string reply = connection.read_reply();
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(reply, HasSubstr("X-Request-Id: mine\r\n"));
  EXPECT_THAT(reply, HasSubstr("data: [DONE]\n\n"));
  connection.send(kHealth);
  EXPECT_THAT(connection.read_reply(), HasSubstr("ok"));
}

TEST_F(HttpServerTest, OldClientsGetAStreamThatEndsWithTheConnection) {
  start();
  TestClient connection = client();
  const std::string body = R"({"prompt":"a","stream":true})";
  connection.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string all = connection.read_all();
  EXPECT_THAT(all, ::testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(all.find("Transfer-Encoding"), std::string::npos);
}

TEST_F(HttpServerTest, AcceptsChunkedBodiesAndExpectations) {
  start();
  TestClient connection = client();
  connection.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "7\r\n{\"conte\r\n9\r\nnt\":\"ab\"}\r\n0\r\n\r\n");
  EXPECT_THAT(connection.read_reply(), HasSubstr(R"("count":2)"));
  connection.send(post("/tokenize", "", "").substr(0, 0) +
                  "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Length: 15\r\n\r\n");
  EXPECT_THAT(connection.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  connection.send(R"({"content":"a"})");
  EXPECT_THAT(connection.read_reply(), HasSubstr(R"("count":1)"));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLargeOrMalformed) {
  HttpOptions options;
  options.max_body_bytes = 1000;
  start(options);
  const auto status = [this](const std::string& request) { return ask(request).substr(9, 3); };
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'a') +
                   "\r\n\r\n"),
            "431");
  EXPECT_EQ(status(post("/tokenize", std::string(1001, 'a'))), "413");
  EXPECT_EQ(
      status("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
             "7d0\r\n" +
             std::string(2000, 'a') + "\r\n0\r\n\r\n"),
      "413");
  EXPECT_EQ(status("\x16\x03\x01\x02 garbage\r\n\r\n"), "400");
  EXPECT_EQ(status("GET /health HTTP/1.1\r\n\r\n"), "400");
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), "400");
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "403");
  EXPECT_EQ(status("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                   "5\r\nContent-Length: 6\r\n\r\nabcdef"),
            "400");
  EXPECT_EQ(status(post("/v1/completions", std::string(900, '['))), "400");
  EXPECT_EQ(status("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"), "404");
  expect_alive();
}

TEST_F(HttpServerTest, ClosesConnectionsThatStall) {
  HttpOptions options;
  options.header_timeout = milliseconds(60);
  options.body_timeout = milliseconds(60);
  options.idle_timeout = milliseconds(60);
  start(options);
  TestClient idle = client();
  TestClient half_head = client();
  half_head.send("GET /health HT");
  TestClient half_body = client();
  half_body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(half_head.read_all(), "");
  EXPECT_EQ(half_body.read_all(), "");
  expect_alive();
}

TEST_F(HttpServerTest, ClientThatLeavesFreesItsGeneration) {
  backend_.is_endless = true;
  backend_.words = {std::string(1000, 'x')};
  start();
  for (const std::string stream : {"true", "false"}) {
    TestClient connection = client();
    connection.send(post("/v1/completions",
                         R"({"prompt":"a","max_tokens":61,"n":16,"stream":)" + stream + "}"));
    if (stream == "true") connection.read_until("data: ");
    connection.close();
    wait_until_free();
  }
  backend_.is_endless = false;
  expect_alive();
}

TEST_F(HttpServerTest, ReaderThatStallsIsDroppedAndOthersAreNot) {
  HttpOptions options;
  options.max_pending_bytes = 1000;
  options.write_timeout = milliseconds(100);
  options.keep_alive_interval = milliseconds(20);
  backend_.words = {std::string(1'000'000, 'x')};
  backend_.is_endless = true;
  start(options);
  TestClient stalled = client();
  stalled.send(post("/v1/completions", R"({"prompt":"a","max_tokens":61,"stream":true})"));
  stalled.read_until("data: ");
  expect_alive();
  wait_until_free();
}

TEST_F(HttpServerTest, SilentStreamsHaveComments) {
  HttpOptions options;
  options.keep_alive_interval = milliseconds(10);
  backend_.layer_time = milliseconds(10);
  backend_.n_layers = 1000;
  start(options);
  TestClient connection = client();
  connection.send(post("/v1/completions", R"({"prompt":"a","stream":true})"));
  EXPECT_THAT(connection.read_until(": keep-alive\n\n"), ::testing::EndsWith(": keep-alive\n\n"));
}

TEST_F(HttpServerTest, ReplyThatNobodyTookIsNotLoggedAsSent) {
  std::promise<bool> is_client_gone;
  HttpOptions options;
  options.write_timeout = milliseconds(100);
  options.on_request = [&](const RequestRecord& record) {
    is_client_gone.set_value(record.facts.is_client_gone);
  };
  backend_.words = {std::string(30'000'000, 'x')};  // more than sockets hold
  start(options);
  TestClient stalled = client();
  stalled.send(post("/v1/completions", R"({"prompt":"a"})"));
  EXPECT_TRUE(is_client_gone.get_future().get());
  stop(milliseconds(0));
}

TEST_F(HttpServerTest, ResponsesAreCountedAsTheyWereSent) {
  start();
  const auto metrics = [this] { return ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); };
  ask(post("/v1/completions", "{"));
  ask("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ask("no request\r\n\r\n");
  backend_.is_endless = true;
  backend_.n_layers = 1'000'000;
  backend_.layer_time = milliseconds(1);
  for (const std::string stream : {"false", "true"}) {
    TestClient leaving = client();
    leaving.send(post("/v1/completions", R"({"prompt":"a","stream":)" + stream + "}"));
    if (stream == "true") leaving.read_until("\r\n\r\n");
    while (backend_.n_open == 0) std::this_thread::yield();
    leaving.close();
    wait_until_free();
  }
  std::string text;
  for (int i = 0; i < 5000 && text.find("gone_total{model_name=\"fake\"} 2\n") == text.npos; ++i) {
    text = metrics();
  }
  EXPECT_THAT(text, HasSubstr("foretoken:http_clients_gone_total{model_name=\"fake\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("foretoken:http_responses_total{status=\"400\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("foretoken:http_responses_total{status=\"404\"} 1\n"));
  EXPECT_EQ(text.find("status=\"503\""), std::string::npos) << "nobody was sent one";
}

TEST_F(HttpServerTest, RequestsBeyondTheLimitAreToldToComeBack) {
  HttpOptions options;
  options.max_requests = 1;
  options.max_pending_bytes = 1000;
  backend_.words = {std::string(1'000'000, 'x')};
  backend_.is_endless = true;
  start(options);
  TestClient first = client();
  first.send(post("/v1/completions", R"({"prompt":"a","max_tokens":61,"stream":true})"));
  first.read_until("data: ");
  const std::string reply = ask(post("/v1/completions", R"({"prompt":"a"})"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(reply, HasSubstr("Retry-After: 1\r\n"));
  expect_alive();
  first.close();
  wait_until_free();
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreRefused) {
  HttpOptions options;
  options.max_connections = 1;
  start(options);
  TestClient first = client();
  first.send(kHealth);
  first.read_reply();
  EXPECT_THAT(client().read_all(), StartsWith("HTTP/1.1 503"));
  first.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(first.read_reply(), HasSubstr("foretoken:http_responses_total{status=\"503\"} 1\n"));
}

TEST_F(HttpServerTest, StopEndsRunningRequestsAfterTheGrace) {
  backend_.words = {std::string(1'000'000, 'x')};
  backend_.is_endless = true;
  HttpOptions options;
  options.max_pending_bytes = 1000;
  options.write_timeout = milliseconds(100);
  start(options);
  TestClient idle = client();
  TestClient busy = client();
  busy.send(post("/v1/completions", R"({"prompt":"a","max_tokens":61,"stream":true})"));
  busy.read_until("data: ");
  stop(milliseconds(10));
  EXPECT_EQ(idle.read_all(), "");
}

TEST_F(HttpServerTest, StopTellsClientsThatTheirRepliesAreCut) {
  backend_.n_layers = 1'000'000;
  backend_.layer_time = milliseconds(1);
  start();
  TestClient streamed = client();
  streamed.send(post("/v1/completions", R"({"prompt":"a","stream":true})"));
  streamed.read_until("text/event-stream");
  TestClient whole = client();
  whole.send(post("/v1/completions", R"({"prompt":"a"})"));
  while (backend_.n_open < 2) std::this_thread::yield();
  stop(milliseconds(10));
  const std::string events = streamed.read_all();
  EXPECT_THAT(events, HasSubstr("server_stopping"));
  EXPECT_THAT(events, EndsWith("\n\n\r\n0\r\n\r\n"));
  EXPECT_THAT(whole.read_all(), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, SurvivesRequestsCutAtEveryByte) {
  start();
  const std::string whole = post("/v1/completions", R"({"prompt":"a","stream":true})");
  for (std::size_t n = 0; n < whole.size(); n += 3) {
    TestClient connection = client();
    connection.send(whole.substr(0, n));
  }
  expect_alive();
  wait_until_free();
}

}  // namespace
}  // namespace ft::server
