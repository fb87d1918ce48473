// Requests whose memory runs out, at each allocation in turn: the client gets an error or a
// connection that ends, never a reply that only looks whole, and the server goes on.
#include "server/api.h"
#include "server/fake_backend_test_data.h"
#include "server/http_client_test_data.h"
#include "server/http_server.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>

namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
// Allocations that this thread may still make, and how many fail after them.
thread_local std::size_t n_allowed = kUnlimited;
thread_local std::size_t n_failing = 0;

bool fails() noexcept {
  if (n_allowed > 0) {
    if (n_allowed != kUnlimited) --n_allowed;
    return false;
  }
  if (n_failing == 0) return false;
  if (n_failing != kUnlimited) --n_failing;
  return true;
}

}  // namespace

// Not inlined: the compiler would see a free() without its malloc().
// NOLINTBEGIN(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): these are what malloc
// is hidden behind
[[gnu::noinline]] void* operator new(std::size_t n_bytes, const std::nothrow_t& /*tag*/) noexcept {
  return fails() ? nullptr : std::malloc(n_bytes > 0 ? n_bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t n_bytes) {
  if (void* bytes = operator new(n_bytes, std::nothrow)) return bytes;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* bytes) noexcept {
  std::free(bytes);
}
[[gnu::noinline]] void operator delete(void* bytes, std::size_t /*n_bytes*/) noexcept {
  std::free(bytes);
}
// AddressSanitizer has its own of these, which would not match the ones above.
[[gnu::noinline]] void* operator new[](std::size_t n_bytes) {
  return operator new(n_bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t n_bytes, const std::nothrow_t& tag) noexcept {
  return operator new(n_bytes, tag);
}
[[gnu::noinline]] void operator delete[](void* bytes) noexcept {
  std::free(bytes);
}
[[gnu::noinline]] void operator delete[](void* bytes, std::size_t /*n_bytes*/) noexcept {
  std::free(bytes);
}
// NOLINTEND(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory)

namespace ft::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The API, whose workers have memory for so many allocations; those behind them fail, be they for
/// telling of it.
class PoorHandler final : public Handler {
 public:
  explicit PoorHandler(Handler& rich) : rich_(rich) {}

  std::optional<Response> answer_head(const RequestHead& head) override {
    return rich_.answer_head(head);
  }
  bool is_quick(const RequestHead& head) const override { return rich_.is_quick(head); }
  void handle(const Request& request, Reply& reply) override {
    if (!is_quick(request.head)) {
      n_allowed = n_given;
      n_failing = n_refused;
    }
    rich_.handle(request, reply);
  }
  Response refusal(const RequestHead& head, int status, std::string_view message) override {
    return rich_.refusal(head, status, message);
  }

  // Changed between requests only.
  std::atomic<std::size_t> n_given = kUnlimited;
  std::atomic<std::size_t> n_refused = 0;

 private:
  Handler& rich_;
};

std::string completion(const std::string& members) {
  const std::string body = R"({"prompt":"a")" + members + "}";
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: "
         "close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

enum class Outcome { kNothing, kRefused, kCut, kWhole };

// What became of a reply. Fails if it looks whole and is not.
Outcome outcome_of(const std::string& reply) {
  if (reply.empty()) return Outcome::kNothing;
  if (!reply.starts_with("HTTP/1.1 200")) {
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 503"));
    return Outcome::kRefused;
  }
  const bool is_stream = reply.find("chunked") != std::string::npos;
  const bool has_all = reply.find("three") != std::string::npos;
  if (has_all && (!is_stream || reply.find("[DONE]") != std::string::npos)) return Outcome::kWhole;
  EXPECT_TRUE(is_stream) << reply;
  EXPECT_TRUE(reply.find("\"error\"") != std::string::npos || !reply.ends_with("\r\n0\r\n\r\n"))
      << reply;
  return Outcome::kCut;
}

TEST(OutOfMemory, EndsTheRequestAndNothingElse) {
  FakeBackend backend;
  Api api(backend, {}, std::make_shared<const SteadyClock>());
  PoorHandler handler(api);
  HttpOptions options;
  options.port = 0;
  options.keep_alive_interval =
      std::chrono::milliseconds(2);  // until the transport looks by itself
  HttpServer server(options, handler);
  std::thread thread([&] { server.run(); });
  const auto ask = [&](const std::string& members) {
    TestClient client(server.port());
    client.send(completion(members));
    return outcome_of(client.read_all());
  };
  // simdjson sets itself up in a function that must not throw: at the first document, which in the
  // program is the model's.
  EXPECT_EQ(ask(""), Outcome::kWhole);
  for (const std::string members : {"", R"(,"stream":true)"}) {
    for (const std::size_t n_refused : {std::size_t{1}, kUnlimited}) {
      SCOPED_TRACE(members + (n_refused == 1 ? ", once" : ", for good"));
      handler.n_refused = n_refused;
      std::map<Outcome, std::size_t> n_of;
      for (handler.n_given = 0; n_of[Outcome::kWhole] == 0; ++handler.n_given) {
        ASSERT_LT(handler.n_given, 10'000U);
        ++n_of[ask(members)];
      }
      const bool is_once = n_refused == 1;
      EXPECT_EQ(n_of[Outcome::kRefused] > 0, is_once);
      EXPECT_EQ(n_of[Outcome::kNothing] > 0, !is_once);
      EXPECT_EQ(n_of[Outcome::kCut] > 0, !members.empty());
    }
  }
  TestClient client(server.port());
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string metrics = client.read_reply();
  EXPECT_THAT(metrics, HasSubstr("foretoken:num_requests_running{model_name=\"fake\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("foretoken:num_requests_waiting{model_name=\"fake\"} 0\n"));
  server.stop(std::chrono::milliseconds(0));
  thread.join();
  EXPECT_EQ(backend.n_open, 0);
}

}  // namespace
}  // namespace ft::server
