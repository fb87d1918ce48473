// A model that writes one text, whatever it is asked: for tests of how fast drafts get through it.
#pragma once

#include "cache/kv_cache.h"
#include "models/model.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace ft::testing {

/// After a prompt of n_prompt tokens it writes `script` and then the stop token, 0, greedily. At
/// position n_prompt - 1 + i its largest logit is script[i]'s, if what was fed before is the
/// prompt and script[0 ... i); else the stop token's. No draft head.
class ScriptedModel final : public models::Model {
 public:
  static constexpr Token kStop = 0;

  /// script: tokens 1 ... n_vocab - 1.
  ScriptedModel(std::size_t n_vocab, std::size_t n_prompt, std::vector<Token> script);

  const models::ModelConfig& config() const noexcept override { return config_; }
  std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const override;
  std::unique_ptr<models::Workspace> new_workspace() const override;
  /// Taps are not offered.
  const models::ForwardOutput& forward(std::span<const models::SequenceSlice> slices,
                                       std::span<const LayerIndex> taps,
                                       std::stop_token stop,
                                       models::Workspace& workspace) const override;
  /// It has no hidden rows: both throw LogicError.
  ConstMatrix embed(TokenSpan tokens, models::Workspace& workspace) const override;
  ConstMatrix project(ConstMatrix hidden,
                      TokenSpan ids,
                      models::Workspace& workspace) const override;
  const models::DraftHead* draft_head() const noexcept override { return nullptr; }

 private:
  Token next(TokenSpan fed) const;

  models::ModelConfig config_;
  std::size_t n_prompt_;
  std::vector<Token> script_;
};

}  // namespace ft::testing
