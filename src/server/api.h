// The API: which path does what, and generations from request to reply. docs/server-api.md is its
// contract.
#pragma once

#include "base/clock.h"
#include "server/access.h"
#include "server/backend.h"
#include "server/dialect.h"
#include "server/http_types.h"
#include "server/metrics.h"
#include "server/reply_run.h"
#include "server/text_request.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

struct ApiOptions {
  AccessOptions access;
  RequestLimits limits;
  std::string model_name;                 // empty: the model's own
  std::optional<std::size_t> max_tokens;  // of requests that name none; unset: docs/server-api.md
};

class Api final : public Handler {
 public:
  /// `backend` must outlive this object.
  Api(Backend& backend, ApiOptions options, std::shared_ptr<const Clock> clock);

  std::optional<Response> answer_head(const RequestHead& head) override;
  bool is_quick(const RequestHead& head) const override;
  void handle(const Request& request, Reply& reply) override;
  Response refusal(const RequestHead& head, int status, std::string_view message) override;

  /// Counts a request that is over. For HttpOptions::on_request.
  void on_request(const RequestRecord& record);

  /// For /metrics. To be set before the first request.
  void set_connection_count(std::function<std::size_t()> n_connections) {
    n_connections_ = std::move(n_connections);
  }

 private:
  Response get(const RequestHead& head) const;
  std::string models(std::string_view path) const;
  Response tokenize(const std::string& body) const;
  Response detokenize(const std::string& body) const;
  Response count_tokens(const std::string& body) const;
  void generate(const Dialect& dialect, const Request& request, Reply& reply);
  ReplyPlan plan(TextRequest request) const;
  std::vector<foretoken::Token> chat_prompt(const TextRequest& request) const;
  foretoken::GenerationRequest generation(const TextRequest& request,
                                          std::vector<foretoken::Token> prompt) const;
  void check_model(const std::string& wanted, const std::string& param) const;
  void check_names(const TextRequest& request) const;
  Headers headers(const RequestHead& head) const;
  Response refused(const RequestHead& head, const ApiError& error) const;
  Response finished(const RequestHead& head, Response response) const;

  Backend& backend_;
  const ApiOptions options_;
  const std::string model_name_;
  const std::int64_t started_;
  std::shared_ptr<const Clock> clock_;
  Metrics metrics_;
  std::function<std::size_t()> n_connections_ = [] { return std::size_t{0}; };
};

}  // namespace ft::server
