// Tests only: clients that stall, leave, read slowly and send what is no request, many at once.
#pragma once

#include "server/http_client_test_data.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::server {

class HostileClients {
 public:
  /// `headers`: lines that every request has, so that some get past the door.
  HostileClients(std::uint16_t port, std::size_t n_clients, std::uint32_t seed, std::string headers)
      : port_(port), random_(seed), headers_(std::move(headers)), clients_(n_clients) {}

  /// One act of one of them; who has left is replaced.
  void step() {
    std::optional<Client>& client = clients_[below(clients_.size())];
    if (!client) {
      client.emplace(Client{TestClient(port_), request(), 0, below(4), below(4)});
      ++n_connected_;
    }
    if (!client->connection.is_connected() || act(*client)) client.reset();
  }
  void leave() {
    for (auto& client : clients_) client.reset();
  }
  std::size_t n_connected() const noexcept { return n_connected_; }

 private:
  struct Client {
    TestClient connection;
    std::string text;
    std::size_t n_sent;
    std::size_t haste;   // 0: byte by byte
    std::size_t hunger;  // 0: reads nothing
  };

  std::size_t below(std::size_t n) { return random_() % n; }
  template <typename... T>
  std::string one_of(const T&... texts) {
    const std::array<std::string, sizeof...(T)> all = {std::string(texts)...};
    return all[below(all.size())];
  }

  // True: it leaves.
  bool act(Client& client) {
    switch (below(40)) {
      case 0:
        client.connection.reset();
        return true;
      case 1:
        return true;
      case 2:
        client.connection.half_close();
        break;
      case 3:
        client.text += request();
        break;
      default:
        break;
    }
    const std::array<std::size_t, 4> kPieces = {1, 100, 5'000, 1'000'000};
    const auto rest = std::string_view(client.text).substr(client.n_sent);
    if (!rest.empty() && below(8) > 0) {  // else it stalls
      const auto n = client.connection.try_send(rest.substr(0, kPieces[client.haste]));
      if (!n) return true;
      client.n_sent += *n;
    }
    return client.hunger > 0 && !client.connection.skip(kPieces[client.hunger]);
  }

  std::string bytes(std::size_t n) {
    std::string out(n, '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }

  std::string repeat(std::string_view text, std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += text;
    return out;
  }

  std::string good_body() {
    const std::string options =
        one_of("", R"(,"stream":true)", R"(,"n":3)", R"(,"stream":true,"n":4)") +
        one_of("", R"(,"max_tokens":60)", R"(,"max_tokens":9,"logprobs":1)");
    return one_of(R"({"prompt":"Once")",
                  R"({"input":"Once","tools":[])",
                  R"({"messages":[{"role":"user","content":"Once"}])") +
           options + "}";
  }

  std::string body() {
    std::string out = good_body();
    switch (below(10)) {
      case 0:
        return out.substr(0, below(out.size()));
      case 1:
        return repeat(one_of("[", R"({"a":)"), 20'000);
      case 2:
        return R"({"messages":[{"role":"user","content":)" + repeat("[", 47) + repeat("]", 47) +
               "}]}";
      case 3:
        return bytes(below(3'000));
      case 4:
        out[below(out.size())] = static_cast<char>(below(256));
        return out;
      case 5:
        return R"({"prompt":")" + std::string(300'000, 'a') + "\"}";
      default:
        return out;
    }
  }

  std::string framed(const std::string& content) {
    const std::string size = std::to_string(content.size());
    switch (below(12)) {
      case 0:
        return "Content-Length: " + std::to_string(content.size() + below(5'000)) + "\r\n\r\n" +
               content;
      case 1:
        return "Content-Length: " + one_of("-1", "18446744073709551615", "1e3", "", "0x10") +
               "\r\n\r\n" + content;
      case 2:
        return "Content-Length: " + size + "\r\nTransfer-Encoding: chunked\r\n\r\n" + content;
      case 3:
        return "Transfer-Encoding: chunked\r\n\r\n" +
               one_of("ffffffffffffffff", "-5", "zz", "3;" + std::string(9'000, 'x')) + "\r\n" +
               content;
      case 4:
        return "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\nf\r\n" +
               content.substr(0, 15) + "\r\n0\r\n" + one_of("\r\n", "T: x\r\n\r\n", "\n");
      case 5:
        return "Content-Length: " + size + "\r\nX: " + std::string(below(40'000), 'x') +
               "\r\n\r\n" + content;
      default:
        return "Content-Length: " + size + "\r\n\r\n" + content;
    }
  }

  std::string request() {
    if (below(12) == 0) return bytes(below(30'000));
    if (below(12) == 0)
      return one_of("\x16\x03\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n");
    const std::string head =
        one_of("POST /v1/chat/completions",
               "POST /v1/completions",
               "POST /v1/responses",
               "POST /v1/messages",
               "POST /tokenize",
               "GET /metrics",
               "HEAD /health",
               "GET /" + std::string(below(20'000), '.'),
               "DELETE /v1/models/../..") +
        one_of(" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/9\r\n", "\r\n") + headers_;
    return repeat(head + framed(body()), 1 + 5 * (below(10) / 9));
  }

  std::uint16_t port_;
  std::minstd_rand random_;
  std::string headers_;
  std::vector<std::optional<Client>> clients_;
  std::size_t n_connected_ = 0;
};

}  // namespace ft::server
