// A draft source that means no good: whatever it proposes, the text must not change.
#pragma once

#include "speculation/draft_source.h"

#include <cstdint>
#include <vector>

namespace ft::testing {

enum class Malice : std::uint8_t {
  kRandomTokens,       // any number of them
  kEndOfText,          // nothing but the stop token
  kRepeatsPending,     // the last token again and again
  kTooMany,            // one more than asked for
  kOutsideVocabulary,  // an id equal to n_vocab
  kNegative,           // an id of -1
  kThrows,
  kThrowsInObserve,
};

class AdversarySource final : public speculation::DraftSource {
 public:
  AdversarySource(Malice malice, std::size_t n_vocab, Token stop_token, std::uint64_t seed)
      : malice_(malice), n_vocab_(n_vocab), stop_token_(stop_token), seed_(seed) {}

  std::string_view name() const noexcept override { return "adversary"; }
  std::span<const LayerIndex> taps() const noexcept override { return taps_; }
  void observe(const speculation::Committed& committed) override;
  speculation::Draft propose(const speculation::DraftRequest& request,
                             std::stop_token stop) override;

  /// Layers it asks for without need.
  void set_taps(std::vector<LayerIndex> taps) { taps_ = std::move(taps); }
  std::size_t n_observed() const noexcept { return n_observed_; }

 private:
  std::uint64_t random(std::uint32_t index) const;

  Malice malice_;
  std::size_t n_vocab_;
  Token stop_token_;
  std::uint64_t seed_;
  std::vector<LayerIndex> taps_;
  std::uint64_t n_calls_ = 0;
  std::size_t n_observed_ = 0;
  Token pending_ = 0;
};

}  // namespace ft::testing
