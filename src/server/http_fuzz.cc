// Fuzz target: any bytes as a request on a connection, in two pieces: parsed as the transport does,
// answered as far as the head decides, and told of in the log.
#include "base/clock.h"
#include "base/error.h"
#include "server/api.h"
#include "server/exchange.h"
#include "server/fake_backend_test_data.h"
#include "server/log.h"
#include "server/request_head.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace {

namespace server = ft::server;

// Headers end once, at the end; no line of them is the client's.
void check_head(const server::Response& response) {
  const std::string head = server::response_head(response, {});
  FT_CHECK(head.find("\r\n\r\n") == head.size() - 4);
  for (std::size_t i = 0; i < head.size(); ++i) {
    FT_CHECK(head[i] != '\n' || (i > 0 && head[i - 1] == '\r'));
    FT_CHECK(static_cast<unsigned char>(head[i]) >= 0x20 || head[i] == '\r' || head[i] == '\n');
  }
}

void check_log(const server::RequestHead& head, int status) {
  for (const server::LogFormat format : {server::LogFormat::kText, server::LogFormat::kJson}) {
    const server::Log log(format, server::LogLevel::kDebug, [](std::string_view line) {
      FT_CHECK(line.size() < 1500 && line.find('\n') == line.size() - 1);
      FT_CHECK(
          std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= ' ' && c <= '~'; }));
    });
    server::ReplyFacts facts;
    facts.status = status;
    log.request({head, facts, std::chrono::microseconds(1)});
  }
}

void answer(server::Handler& api, const server::RequestParser& parser) {
  const server::RequestHead head = server::head_of(parser, "own");
  static_cast<void>(server::has_valid_host(parser));
  static_cast<void>(api.is_quick(head));
  const auto early = api.answer_head(head);
  if (early) check_head(*early);
  check_log(head, early ? early->status : 200);
}

void read(server::Handler& api, std::string_view first, std::string_view second) {
  server::RequestParser parser;
  server::limit(parser, std::size_t{16} << 10, std::size_t{1} << 12);
  bool is_answered = false;
  std::string rest;
  for (const std::string_view piece : {first, second}) {
    rest += piece;
    while (!rest.empty() && !parser.is_done()) {
      boost::system::error_code error;
      const std::size_t n = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
      rest.erase(0, n);
      if (parser.is_header_done() && !is_answered) {
        is_answered = true;
        answer(api, parser);
        parser.eager(true);
      }
      if (error == boost::beast::http::error::need_more) break;
      if (error) {
        FT_CHECK(server::is_of_client(error));
        const int status = server::status_of(error);
        const server::RequestHead head = server::head_of(parser, "own");
        check_head(api.refusal(head, status, "the request is malformed: " + error.message()));
        check_log(head, status);
        return;
      }
      if (n == 0) break;
    }
  }
  FT_CHECK(parser.get().body().size() <= std::size_t{1} << 12);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static server::FakeBackend backend;
  static server::Api api = [] {
    server::ApiOptions options;
    options.access.allowed_origins = {"https://a.example"};
    return server::Api(backend, options, std::make_shared<const ft::SteadyClock>());
  }();
  if (size == 0) return 0;
  const std::string bytes(data + 1, data + size);
  const std::size_t cut = bytes.size() * data[0] / 256;
  read(api, std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut));
  return 0;
}
