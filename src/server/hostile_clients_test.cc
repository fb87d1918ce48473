// What clients may do to a server and to each other, and what they cost while they do nothing.
#include "server/api.h"
#include "server/fake_backend_test_data.h"
#include "server/hostile_clients_test_data.h"
#include "server/http_client_test_data.h"
#include "server/http_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace ft::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string post(const std::string& body) {
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\nContent-Length: "
      "{}\r\n\r\n{}",
      body.size(),
      body);
}

constexpr const char* kStream = R"({"prompt":"a","max_tokens":40,"seed":1,"stream":true})";

class HostileClientsTest : public ::testing::Test {
 protected:
  HostileClientsTest() {
    backend_.is_endless = true;
    options_.port = 0;
    options_.max_requests = 256;
  }
  ~HostileClientsTest() override {
    if (!thread_.joinable()) return;
    server_->stop(milliseconds(0));
    thread_.join();
    server_.reset();
    EXPECT_EQ(backend_.n_open, 0);
  }
  void start() {
    api_.emplace(backend_, ApiOptions{}, std::make_shared<const SteadyClock>());
    server_.emplace(options_, *api_);
    thread_ = std::thread([this] { server_->run(); });
  }
  TestClient client() const { return TestClient(server_->port()); }
  // Whole, but for the second of its creation.
  std::string stream() const {
    TestClient connection = client();
    connection.send(post(kStream));
    std::string reply = connection.read_reply();
    for (std::size_t at = 0; (at = reply.find("\"created\":", at)) != std::string::npos; ++at) {
      reply.erase(at, reply.find(',', at) - at);
    }
    return reply;
  }
  // Milliseconds until there is no generation any more; a bound for tests that fail.
  double time_until_free() const {
    const auto begin = steady_clock::now();
    while (backend_.n_open > 0 && steady_clock::now() - begin < std::chrono::seconds(10)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
  }

  FakeBackend backend_;
  HttpOptions options_;
  std::optional<Api> api_;
  std::optional<HttpServer> server_;
  std::thread thread_;
};

// `--gtest_repeat=N --gtest_shuffle` gives each repetition another seed.
TEST_F(HostileClientsTest, HundredAtOnceDisturbNobody) {
  // Long enough for a machine with other work to serve the stream beside them.
  options_.header_timeout = milliseconds(2'000);
  options_.body_timeout = milliseconds(2'000);
  options_.idle_timeout = milliseconds(2'000);
  options_.write_timeout = milliseconds(2'000);
  options_.max_pending_bytes = 20'000;
  backend_.words = {"word", std::string(2'000, 'x'), " \"\\\n"};
  start();
  const std::string alone = stream();
  ASSERT_THAT(alone, HasSubstr("[DONE]"));
  std::atomic<bool> is_over = false;
  int n_streams = 0;
  std::thread well_behaved([&] {
    while (!is_over) {
      EXPECT_TRUE(stream() == alone);  // they are long
      ++n_streams;
    }
  });
  const auto seed = static_cast<std::uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  HostileClients clients(server_->port(), 100, seed, "Host: localhost\r\n");
  for (int i = 0; i < 10'000; ++i) clients.step();
  is_over = true;
  well_behaved.join();
  clients.leave();
  time_until_free();
  EXPECT_EQ(backend_.n_open, 0);
  EXPECT_GT(n_streams, 1);
  EXPECT_GT(clients.n_connected(), 200U);
  const std::string metrics = [this] {
    TestClient connection = client();
    connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return connection.read_reply();
  }();
  EXPECT_THAT(metrics, HasSubstr("foretoken:num_requests_running{model_name=\"fake\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("foretoken:num_requests_waiting{model_name=\"fake\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("foretoken:kv_cache_positions{model_name=\"fake\"} 0\n"));
}

TEST_F(HostileClientsTest, LeavingFreesTheSlotAfterTheLayerAtWork) {
  backend_.layer_time = milliseconds(10);
  backend_.n_layers = 200;  // a word takes two seconds
  start();
  for (const bool is_stream : {true, false}) {
    TestClient connection = client();
    connection.send(post(is_stream ? kStream : R"({"prompt":"a"})"));
    while (backend_.n_open == 0) std::this_thread::yield();
    if (is_stream) connection.read_until("\r\n\r\n");
    connection.close();
    const double took_ms = time_until_free();
    RecordProperty(is_stream ? "stream_ms" : "whole_ms", std::to_string(took_ms));
    EXPECT_LT(took_ms, 500) << "a layer takes 10 ms";
  }
}

// Bodies that are announced and never come hold no memory and keep nobody out.
TEST_F(HostileClientsTest, AnnouncedBodiesKeepNobodyOut) {
  options_.max_body_bytes = 1'000'000;
  options_.max_all_body_bytes = 1'000'000;
  backend_.is_endless = false;
  start();
  std::vector<TestClient> stalled;
  for (int i = 0; i < 20; ++i) {
    stalled.push_back(client());
    stalled.back().send(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    stalled.back().send(std::string(50'000, ' '));
  }
  TestClient large = client();
  large.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  large.send(std::string(1'000'000, ' '));
  EXPECT_THAT(large.read_reply(), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(stream(), HasSubstr("[DONE]"));
  // What does arrive counts, once it was read.
  stalled.push_back(client());
  stalled.back().send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  stalled.back().send(std::string(999'999, ' '));
  std::string reply;
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (!reply.starts_with("HTTP/1.1 503") && steady_clock::now() < deadline) {
    TestClient late = client();
    late.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" +
              std::string(200'000, ' '));
    reply = late.read_reply();
  }
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 503"));
}

#ifndef __clang__  // whose builds have sanitizers, and their memory
std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t n_all = 0;
  std::size_t n_resident = 0;
  in >> n_all >> n_resident;
  return n_resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(HostileClientsTest, IdleStreamsAndConnectionsCostLittle) {
  backend_.layer_time = milliseconds(50);
  backend_.n_layers = 1000;
  start();
  std::vector<TestClient> clients;
  const auto cost = [&](std::size_t n, const std::string& request, const char* end) {
    const std::size_t before = resident_bytes();
    for (std::size_t i = 0; i < n; ++i) {
      clients.push_back(client());
      clients.back().send(request);
      clients.back().read_until(end);
    }
    return (std::max(resident_bytes(), before) - before) / n;
  };
  const std::string health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  cost(4, health, "ok");  // what the first ones build stays
  cost(4, post(kStream), "\r\n\r\n");
  const std::size_t stream_bytes = cost(64, post(kStream), "\r\n\r\n");
  const std::size_t connection_bytes = cost(440, health, "ok");
  RecordProperty("stream_bytes", std::to_string(stream_bytes));
  RecordProperty("connection_bytes", std::to_string(connection_bytes));
  EXPECT_LT(stream_bytes, 200'000U);
  EXPECT_LT(connection_bytes, 40'000U);
}
#endif

}  // namespace
}  // namespace ft::server
