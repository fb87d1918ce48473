// A model without weights for tests of everything above models/. Its logits are a fixed function of
// the whole fed history, computed from a hybrid cache: a list of tokens (attention-like) and a
// running state that can be undone for a bounded number of positions (recurrent-like). A lost,
// doubled, stale or shifted token changes every later logit.
#pragma once

#include "cache/kv_cache.h"
#include "models/draft_head.h"
#include "models/model.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace ft::testing {

struct FakeModelOptions {
  std::size_t n_vocab = 16;
  std::size_t max_context = 4096;
  /// How many positions the caches can undo; none: any number.
  std::optional<std::size_t> rollback_window;
  /// Logits depend on the last two tokens only, so that greedy text soon repeats itself.
  bool is_repetitive = false;
  Token eos_token = 0;
  /// Percentage of rows at which the draft head has the target's logits; elsewhere it has others.
  /// None: no draft head.
  std::optional<unsigned> head_quality;
  bool head_wants_prompt = true;
  std::string weights_hash = "fake";
  /// Called by every forward before anything else, on its thread; what it throws is the forward's
  /// end. May be empty.
  std::function<void(std::span<const models::SequenceSlice> slices,
                     const std::stop_token& stop,
                     models::Workspace& workspace)>
      before_forward = {};
};

/// All that the trunk knows at a position.
struct FakeState {
  std::uint64_t recurrent = 0;  // folded token by token
  std::uint64_t attention = 0;  // summed over (token, position) of all tokens
  std::size_t length = 0;
  Token last = -1;
  Token before_last = -1;
  bool operator==(const FakeState&) const = default;
};
/// The state after one more token.
FakeState advance(const FakeState& state, Token token);

class FakeCache final : public cache::KvCache {
 public:
  FakeCache(std::size_t max_tokens, std::optional<std::size_t> rollback_window);

  std::size_t length() const noexcept override { return tokens_.size(); }
  std::size_t max_tokens() const noexcept override { return max_tokens_; }
  std::size_t rollback_limit() const noexcept override;
  void truncate(std::size_t new_length) override;
  std::unique_ptr<cache::KvCache> clone() const override;
  std::size_t used_bytes() const noexcept override { return tokens_.size() * sizeof(Token); }

  void push_back(Token token);
  TokenSpan tokens() const noexcept { return tokens_; }
  FakeState state() const;

 private:
  std::size_t max_tokens_;
  std::optional<std::size_t> rollback_window_;
  std::vector<Token> tokens_;
  std::deque<std::uint64_t> recurrent_;  // snapshots, the newest last; one more than can be undone
};

/// What one forward was asked.
struct FedTokens {
  std::size_t begin = 0;
  std::vector<Token> tokens;
};

class FakeWorkspace final : public models::Workspace {
 public:
  models::ForwardOutput output;
  std::vector<float> logits;
  std::vector<float> hidden;
  std::vector<std::vector<float>> residuals;  // one per tap
  std::vector<float> embedded;
  std::vector<float> projected;
  std::vector<FedTokens> fed;  // every forward, oldest first
  /// That many forwards from now one throws IoError.
  std::optional<std::size_t> fails_in;
  /// The row of the next forward whose logits are NaN.
  std::optional<std::size_t> nan_row;
};

/// Of one slice of a step.
struct FakeHeadResult {
  std::vector<float> logits;
  std::vector<float> hidden;
  bool is_finite = true;
};

/// Its rows are checked as they come: see FakeHeadCache.
class FakeDraftHead final : public models::DraftHead {
 public:
  explicit FakeDraftHead(const FakeModelOptions& options) : options_(options) {}

  std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const override;
  std::unique_ptr<models::Workspace> new_workspace() const override;
  void append(cache::KvCache& cache,
              ConstMatrix hidden,
              TokenSpan next_tokens,
              models::Workspace& workspace) const override;
  std::span<const models::DraftStep> step(std::span<const models::DraftSlice> slices,
                                          models::Workspace& workspace) const override;
  bool wants_prompt() const noexcept override { return options_.head_wants_prompt; }

  /// That many steps from now one throws IoError after appending its rows.
  void fail_in(std::size_t n_steps) const { fails_in_ = n_steps; }
  /// That many steps from now n in a row compute NaN.
  void spoil_in(std::size_t n_steps, std::size_t n) const {
    spoils_in_ = n_steps;
    n_to_spoil_ = n;
  }
  /// Steps of several sequences. Any thread.
  std::size_t n_shared() const noexcept { return n_shared_; }
  /// Rows that came by append() and by step().
  std::size_t n_appended() const noexcept { return n_appended_; }
  std::size_t n_stepped() const noexcept { return n_stepped_; }
  /// Rows of the largest call for one cache.
  std::size_t most_rows() const noexcept { return most_rows_; }

 private:
  FakeHeadResult result_of(const models::DraftSlice& slice) const;

  FakeModelOptions options_;
  mutable std::optional<std::size_t> fails_in_;
  mutable std::size_t spoils_in_ = 0;
  mutable std::size_t n_to_spoil_ = 0;
  mutable std::atomic<std::size_t> n_shared_ = 0;
  mutable std::size_t n_appended_ = 0;
  mutable std::size_t n_stepped_ = 0;
  mutable std::size_t most_rows_ = 0;
};

/// The head's own cache. A row is refused with LogicError unless it is in order and true: its
/// hidden row must be that of a later position, if of the next then made by the trunk from exactly
/// the tokens the rows before it were paired with; a chained row must follow from the row before
/// it, and no true row may stand on chained ones.
class FakeHeadCache final : public cache::KvCache {
 public:
  struct Row {
    FakeState state;  // of the trunk at that position
    Token next = 0;
    bool is_chained = false;
    bool operator==(const Row&) const = default;
  };

  FakeHeadCache(std::size_t max_tokens, std::optional<std::size_t> rollback_window)
      : max_tokens_(max_tokens), rollback_window_(rollback_window) {}

  std::size_t length() const noexcept override { return rows_.size(); }
  std::size_t max_tokens() const noexcept override { return max_tokens_; }
  std::size_t rollback_limit() const noexcept override {
    return rollback_window_.value_or(max_tokens_);
  }
  void truncate(std::size_t new_length) override;
  std::unique_ptr<cache::KvCache> clone() const override;
  std::size_t used_bytes() const noexcept override { return rows_.size() * sizeof(Row); }

  void add(const Row& row);
  const std::vector<Row>& rows() const noexcept { return rows_; }

 private:
  std::size_t max_tokens_;
  std::optional<std::size_t> rollback_window_;
  std::vector<Row> rows_;
};

class FakeModel final : public models::Model {
 public:
  explicit FakeModel(FakeModelOptions options);

  const models::ModelConfig& config() const noexcept override { return config_; }
  std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const override;
  std::unique_ptr<models::Workspace> new_workspace() const override;
  const models::ForwardOutput& forward(std::span<const models::SequenceSlice> slices,
                                       std::span<const LayerIndex> taps,
                                       std::stop_token stop,
                                       models::Workspace& workspace) const override;
  ConstMatrix embed(TokenSpan tokens, models::Workspace& workspace) const override;
  /// Rows must be of tap n_layers, else LogicError.
  ConstMatrix project(ConstMatrix hidden,
                      TokenSpan ids,
                      models::Workspace& workspace) const override;
  const models::DraftHead* draft_head() const noexcept override;
  const FakeDraftHead* fake_head() const noexcept { return head_.get(); }

  /// The logits after a sequence, from its tokens alone: what forward() must come to.
  std::vector<float> logits_after(TokenSpan tokens) const;
  /// The state after a sequence: what the draft head's rows must hold.
  static FakeState state_after(TokenSpan tokens);
  /// The hidden row after a sequence: what a tap of that layer must hold.
  static std::vector<float> hidden_after(TokenSpan tokens, LayerIndex layer);

 private:
  void check(const models::SequenceSlice& slice) const;
  void check_tokens(TokenSpan tokens) const;
  void feed(const models::SequenceSlice& slice, FakeWorkspace& space) const;

  FakeModelOptions options_;
  models::ModelConfig config_;
  std::unique_ptr<FakeDraftHead> head_;
};

}  // namespace ft::testing
