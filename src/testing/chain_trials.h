// Many short texts of a Markov chain, written in rounds of drafts: what their tokens' law is, for
// tests of ratio mode. Target and drafter are two chains over eight ids.
#pragma once

#include "sampling/verify.h"
#include "testing/law_check.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ft::testing {

/// Where the drafts of a window come from.
enum class Drafting {
  kSampled,        // the drafter's chain, laws handed over
  kUntold,         // the drafter's chain, laws kept back
  kDeterministic,  // a fixed function of the token before
  kMixed           // by turns, a deterministic one first in even rounds
};

/// One window, ready to be judged.
struct ChainWindow {
  sampling::History committed;
  sampling::DrawnDrafts drafts;
  ConstMatrix target_logits;
};
using Judge = std::function<sampling::Verdict(const ChainWindow&, sampling::Sampler&)>;

struct ChainTrials {
  std::string name = {};
  sampling::SamplingParams sampling;  // seed: of the first text; the n-th has seed + n
  std::size_t n_drafts = 1;
  Drafting drafting = Drafting::kSampled;
  std::size_t n_texts = 0;
  /// Planted bugs: laws from before the filters; one attempt for all rounds.
  bool has_raw_laws = false;
  bool forgets_attempt = false;
  Judge judge = {};  // none: verify_rejection()
};

struct ChainLaws {
  LawCheck first;         // the first token of the text
  LawCheck text;          // the first three together
  LawCheck second_round;  // its first token, given the text before it, and so where round 1 ended
  std::uint64_t n_first_accepted = 0;  // texts whose first draft was accepted
  double first_acceptance =
      0;  // expected: 1 - TV(p, q), or p(x), averaged over the drafts that came
};

ChainLaws run(const ChainTrials& trials);

/// Ratio mode at 1 to 4 drafts, with every kind of drafts, filter and penalty.
std::vector<ChainTrials> right_chain_trials(std::size_t n_texts);

}  // namespace ft::testing
