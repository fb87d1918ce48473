// Tests only: a backend whose text is known, and a reply that is kept.
#pragma once

#include "server/backend.h"
#include "server/http_types.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ft::server {

// A line as the engine traces rounds, and what no round is.
inline constexpr std::string_view kTraceLine =
    R"({"round":4,"position":20,"source":"mtp+ngram","depth":4,"drafts":[0,1,2],"accepted":1,)"
    R"("token":2,"predicted_us":9,"actual_us":10,"reason":"best","draft_us":1,"forward_us":6,)"
    R"("verify_us":2,"observe_us":1,"regret_us":null,"asked":[[3,2],[1,1]],"stall_us":5,)"
    R"("experts":{"mode":"stream","hits":7,"misses":3,"hit_rate":0.7,"bytes_read":4096,)"
    R"("stall_ms":0.005,"trunk":{}},"memory":{"anonymous_bytes":9,"budget_bytes":0,)"
    R"("kv_bytes":2,"expert_cache_bytes":3}})";
inline constexpr std::string_view kTraceHeader = R"({"plan":{"sources":["mtp","ngram"]}})";

/// Says its words one by one, each a token; the last is the end of text. Ids are places in the
/// list. With `is_endless` it never ends by itself.
class FakeBackend final : public Backend {
 public:
  FakeBackend() {
    info_.name = "fake";
    info_.n_vocab = 100;
    info_.context = 64;
    info_.max_sessions = 2;
    info_.eos_tokens = {99};
    info_.draft_sources = {"mtp", "prediction"};
    info_.hash = "0123456789abcdef";
  }

  std::vector<std::string> words = {"one", " two", " three"};
  bool is_endless = false;
  std::atomic<int> n_open = 0;  // generations that exist
  int n_meeting = 0;            // so many wait for each other before their first word
  std::atomic<int> n_met = 0;
  int failing = -1;  // which of the requests has no model to run
  // A word takes that many layers; a generation that was cancelled ends after its layer.
  std::chrono::milliseconds layer_time{0};
  int n_layers = 1;

  std::unique_ptr<Generation> submit(foretoken::GenerationRequest request) override {
    const std::lock_guard lock(mutex_);
    const bool fails = static_cast<int>(requests_.size()) == failing;
    requests_.push_back(request);
    return std::make_unique<FakeGeneration>(*this, std::move(request), fails);
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
  std::unique_ptr<ReplySplitter> reply_splitter(std::span<const foretoken::Token> /*prompt*/,
                                                std::string_view tools_json) const override {
    return std::make_unique<FakeSplitter>(!tools_json.empty());
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
  /// Words say what they are: "<think>" before reasoning, "<call>" before a tool's name, which its
  /// arguments follow.
  class FakeSplitter final : public ReplySplitter {
   public:
    explicit FakeSplitter(bool has_tools) : has_tools_(has_tools) {}
    std::vector<foretoken::ReplyDelta> push(const foretoken::CommittedTokens& tokens) override {
      using Kind = foretoken::ReplyDelta::Kind;
      if (tokens.text.empty()) return {};
      if (tokens.text.starts_with("<think>")) {
        ++n_reasoning_;
        return {{Kind::kReasoning, tokens.text.substr(7), 0}};
      }
      if (has_tools_ && tokens.text.starts_with("<call>")) {
        const std::size_t space = tokens.text.find(' ');
        const std::size_t index = n_calls_++;
        return {{Kind::kToolName, tokens.text.substr(6, space - 6), index},
                {Kind::kToolArguments, tokens.text.substr(space + 1), index}};
      }
      return {{Kind::kContent, tokens.text, 0}};
    }
    std::vector<foretoken::ReplyDelta> finish() override { return {}; }
    std::size_t n_calls() const override { return n_calls_; }
    std::size_t n_reasoning_tokens() const override { return n_reasoning_; }

   private:
    bool has_tools_;
    std::size_t n_calls_ = 0;
    std::size_t n_reasoning_ = 0;
  };

  class FakeGeneration final : public Generation {
   public:
    FakeGeneration(FakeBackend& backend, foretoken::GenerationRequest request, bool fails)
        : backend_(backend), request_(std::move(request)), fails_(fails) {
      ++backend_.n_open;
    }
    ~FakeGeneration() override { --backend_.n_open; }
    FakeGeneration(const FakeGeneration&) = delete;
    FakeGeneration& operator=(const FakeGeneration&) = delete;
    FakeGeneration(FakeGeneration&&) = delete;
    FakeGeneration& operator=(FakeGeneration&&) = delete;

    std::optional<foretoken::Event> next() override {
      if (is_done_) return std::nullopt;
      if (fails_) throw foretoken::Error(foretoken::ErrorCode::kInternal, "no model");
      if (n_ == 0) {
        ++backend_.n_met;
        while (backend_.n_met < backend_.n_meeting) std::this_thread::yield();
      }
      for (int i = 0; i < backend_.n_layers && !is_cancelled_; ++i) {
        if (backend_.layer_time.count() > 0) std::this_thread::sleep_for(backend_.layer_time);
      }
      const bool is_cancelled = is_cancelled_;
      const std::size_t n_words = backend_.words.size();
      if (!is_cancelled && n_ < request_.max_tokens && (backend_.is_endless || n_ <= n_words)) {
        foretoken::CommittedTokens tokens;
        const bool is_end = !backend_.is_endless && n_ == n_words;
        const std::size_t word = n_ % n_words;
        ++n_;
        tokens.ids = {is_end ? 99 : static_cast<foretoken::Token>(word)};
        if (!is_end) tokens.text = backend_.words[word];
        if (request_.trace) request_.trace(kTraceLine);
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
    const bool fails_;
    std::size_t n_ = 0;
    bool is_done_ = false;
    std::atomic<bool> is_cancelled_ = false;
  };

  foretoken::ModelInfo info_;
  mutable std::mutex mutex_;
  std::vector<foretoken::GenerationRequest> requests_;
};

class KeptReply : public Reply {
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
