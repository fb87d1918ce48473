// Tests only: a backend whose text is known, and a reply that is kept.
#pragma once

#include "server/backend.h"
#include "server/http_types.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ft::server {

/// Says its words one by one, each a token; the last is the end of text. Ids are places in the
/// list. With `is_endless` it never ends by itself.
class FakeBackend final : public Backend {
 public:
  FakeBackend() {
    info_.name = "fake";
    info_.n_vocab = 100;
    info_.context = 64;
    info_.eos_tokens = {99};
    info_.draft_sources = {"mtp", "prediction"};
    info_.hash = "0123456789abcdef";
  }

  std::vector<std::string> words = {"one", " two", " three"};
  bool is_endless = false;
  std::atomic<int> n_open = 0;  // generations that exist

  std::unique_ptr<Generation> submit(foretoken::GenerationRequest request) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    return std::make_unique<FakeGeneration>(*this, std::move(request));
  }
  std::vector<foretoken::GenerationRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::vector<foretoken::Token> encode(std::string_view text) const override {
    return std::vector<foretoken::Token>(text.size(), 1);
  }
  foretoken::ChatPrompt encode_chat(std::string_view request_json) const override {
    return {std::string(request_json), {1, 2, 3}};
  }
  std::string decode(std::span<const foretoken::Token> ids) const override {
    std::string out;
    for (const foretoken::Token id : ids) {
      out +=
          static_cast<std::size_t>(id) < words.size() ? words[static_cast<std::size_t>(id)] : "?";
    }
    return out;
  }
  const foretoken::ModelInfo& model() const override { return info_; }

 private:
  class FakeGeneration final : public Generation {
   public:
    FakeGeneration(FakeBackend& backend, foretoken::GenerationRequest request)
        : backend_(backend), request_(std::move(request)) {
      ++backend_.n_open;
    }
    ~FakeGeneration() override { --backend_.n_open; }
    FakeGeneration(const FakeGeneration&) = delete;
    FakeGeneration& operator=(const FakeGeneration&) = delete;
    FakeGeneration(FakeGeneration&&) = delete;
    FakeGeneration& operator=(FakeGeneration&&) = delete;

    std::optional<foretoken::Event> next() override {
      if (is_done_) return std::nullopt;
      const bool is_cancelled = is_cancelled_;
      const std::size_t n_words = backend_.words.size();
      if (!is_cancelled && n_ < request_.max_tokens && (backend_.is_endless || n_ <= n_words)) {
        foretoken::CommittedTokens tokens;
        const bool is_end = !backend_.is_endless && n_ == n_words;
        const std::size_t word = n_ % n_words;
        ++n_;
        tokens.ids = {is_end ? 99 : static_cast<foretoken::Token>(word)};
        if (!is_end) tokens.text = backend_.words[word];
        if (request_.logprobs) {
          tokens.logprobs.push_back({{tokens.ids[0], -0.5F}, {{tokens.ids[0], -0.5F}}});
        }
        return tokens;
      }
      is_done_ = true;
      foretoken::Completion out;
      out.finish_reason = is_cancelled   ? foretoken::FinishReason::kCancelled
                          : n_ > n_words ? foretoken::FinishReason::kStop
                                         : foretoken::FinishReason::kLength;
      out.seed = request_.sampling.seed.value_or(1000);
      out.usage = {request_.prompt.size(), n_, 0};
      return out;
    }
    void cancel() noexcept override { is_cancelled_ = true; }

   private:
    FakeBackend& backend_;
    foretoken::GenerationRequest request_;
    std::size_t n_ = 0;
    bool is_done_ = false;
    std::atomic<bool> is_cancelled_ = false;
  };

  foretoken::ModelInfo info_;
  mutable std::mutex mutex_;
  std::vector<foretoken::GenerationRequest> requests_;
};

class KeptReply final : public Reply {
 public:
  void send(Response sent) override { response = std::move(sent); }
  void begin_events(const Headers& /*headers*/) override { is_stream = true; }
  bool write(std::string_view text) override {
    events += text;
    return !gone_.stop_requested();
  }
  std::stop_token gone() const noexcept override { return gone_.get_token(); }
  void leave() { gone_.request_stop(); }

  std::optional<Response> response;
  bool is_stream = false;
  std::string events;

 private:
  std::stop_source gone_;
};

}  // namespace ft::server
