// One generation as the engine runs it, for tests of rounds: prefill in chunks, first token,
// rounds.
#pragma once

#include "sampling/sampler.h"
#include "speculation/decode_round.h"
#include "speculation/draft_source.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <functional>
#include <memory>
#include <vector>

namespace ft::testing {

struct GenerationOptions {
  sampling::SamplingParams sampling;
  std::vector<Token> prompt;
  std::size_t prefill_chunk = 512;
  std::size_t max_tokens = 60;  // of the output
  std::size_t cache_tokens = 512;
  std::vector<Token> prediction;
};

/// Who drafts in a round and how much: (source index or -1, depth).
using Chooser = std::function<std::pair<int, std::size_t>(std::size_t round)>;
/// The same for several drafters in one window, in order: (source index, depth) each.
using WindowChooser =
    std::function<std::vector<std::pair<std::size_t, std::size_t>>(std::size_t round)>;

class Generation {
 public:
  Generation(const FakeModel& model, GenerationOptions options);

  /// Opens the provider's source for this session.
  speculation::DraftSource& add_source(std::string_view name);
  /// A source that the test keeps.
  void add_source(speculation::DraftSource& source);

  void prefill();
  /// The result's logits have been compared bit by bit with those of the sequence when it returns.
  speculation::RoundResult round(speculation::DraftSource* proposer, std::size_t depth);
  speculation::RoundResult round(std::span<const speculation::Proposer> proposers);
  /// Prefill and rounds until a stop token or max_tokens. Returns the whole sequence.
  const std::vector<Token>& run(const Chooser& choose);
  const std::vector<Token>& run_windows(const WindowChooser& choose);

  bool is_done() const;
  const std::vector<Token>& tokens() const noexcept { return tokens_; }
  speculation::RoundState& state() noexcept { return state_; }
  FakeCache& cache() noexcept { return dynamic_cast<FakeCache&>(*cache_); }
  FakeWorkspace& workspace() noexcept { return dynamic_cast<FakeWorkspace&>(*workspace_); }
  FakeClock& clock() noexcept { return clock_; }
  std::size_t n_accepted() const noexcept { return n_accepted_; }
  std::size_t n_rounds() const noexcept { return n_rounds_; }

 private:
  const FakeModel& model_;
  GenerationOptions options_;
  sampling::Sampler sampler_;
  std::unique_ptr<cache::KvCache> cache_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<Token> tokens_;
  std::vector<std::unique_ptr<speculation::DraftSource>> owned_;
  std::vector<speculation::DraftSource*> sources_;
  FakeClock clock_{1};
  speculation::RoundState state_;
  std::size_t n_accepted_ = 0;
  std::size_t n_rounds_ = 0;
};

/// The same text by the plainest means: no cache, no rounds, one sample after another.
std::vector<Token> generate_plainly(const FakeModel& model, const GenerationOptions& options);

}  // namespace ft::testing
