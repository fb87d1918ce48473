#include "engine/evaluation.h"

#include "base/error.h"
#include "cache/kv_cache.h"
#include "models/draft_head.h"
#include "models/model.h"
#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace ft::engine {
namespace {

std::vector<float> to_vector(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Ties go to the lowest id, as in greedy sampling.
Token argmax(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// The draft head beside a prompt that is being fed: history rows, then a greedy chain.
class DraftChain {
 public:
  DraftChain(const models::DraftHead& head, const cache::CacheOptions& options)
      : head_(head), cache_(head.new_cache(options)), workspace_(head.new_workspace()) {}

  /// Hidden rows of prompt positions first ... and the whole prompt. The last position has no next
  /// token yet: it waits.
  void observe(ConstMatrix hidden, std::size_t first, TokenSpan prompt) {
    const std::size_t n_paired = std::min(hidden.n_rows, prompt.size() - 1 - first);
    if (n_paired > 0 && head_.wants_prompt()) {
      ConstMatrix rows = hidden;
      rows.n_rows = n_paired;
      head_.append(*cache_, rows, prompt.subspan(first + 1, n_paired), *workspace_);
    }
    last_hidden_ = to_vector(hidden.row(hidden.n_rows - 1));
  }

  void draft(Token token, std::size_t n_drafts, foretoken::Evaluation& out) {
    models::IndexSets sets;
    for (std::size_t i = 0; i < n_drafts; ++i) {
      const ConstMatrix hidden{last_hidden_.data(), 1, last_hidden_.size(), last_hidden_.size()};
      const models::DraftStep step = head_.step(*cache_, hidden, {&token, 1}, sets, *workspace_);
      token = argmax(step.logits);
      out.drafts.push_back(token);
      out.draft_logits.push_back(to_vector(step.logits));
      last_hidden_ = to_vector(step.hidden);
    }
  }

 private:
  const models::DraftHead& head_;
  std::unique_ptr<cache::KvCache> cache_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<float> last_hidden_;
};

std::optional<DraftChain> open_chain(const EngineCore& core,
                                     const foretoken::EvaluationRequest& request) {
  if (request.n_drafts == 0) return std::nullopt;
  const models::DraftHead* head = core.model().draft_head();
  if (head == nullptr) fail("drafts were asked for, and the model has no next-token (MTP) layer");
  const std::size_t context = core.parts().context;
  if (request.n_drafts > context || request.tokens.size() - 1 > context - request.n_drafts) {
    fail("{} drafts after a prompt of {} tokens do not fit into the context of {}",
         request.n_drafts,
         request.tokens.size(),
         context);
  }
  return std::make_optional<DraftChain>(*head, core.parts().cache_options());
}

}  // namespace

foretoken::Evaluation evaluate(EngineCore& core,
                               const foretoken::EvaluationRequest& request,
                               const std::stop_token& stop) {
  const models::Model& model = core.model();
  const TokenSpan prompt = request.tokens;
  std::optional<DraftChain> chain = open_chain(core, request);
  const std::unique_ptr<cache::KvCache> cache = model.new_cache(core.parts().cache_options());
  const std::array<LayerIndex, 1> final_norm = {static_cast<LayerIndex>(model.config().n_layers)};
  const std::span<const LayerIndex> taps = chain ? final_norm : std::span<const LayerIndex>();

  foretoken::Evaluation out;
  for (std::size_t first = 0; first < prompt.size();) {
    const std::size_t n = std::min(core.parts().prefill_chunk, prompt.size() - first);
    const bool is_last = first + n == prompt.size();
    const std::size_t n_rows = request.all_positions ? n : std::size_t{is_last};
    const std::size_t n_logits = request.logprobs ? n : n_rows;
    const std::array<models::SequenceSlice, 1> slice = {
        models::SequenceSlice{cache.get(), prompt.subspan(first, n), n_logits}};
    const models::ForwardOutput& result = model.forward(slice, taps, stop, core.workspace());
    for (std::size_t i = n_logits - n_rows; i < n_logits; ++i) {
      out.positions.push_back(first + n - n_logits + i);
      out.logits.push_back(to_vector(result.logits.row(i)));
    }
    for (std::size_t i = 0; request.logprobs && i < n && first + i + 1 < prompt.size(); ++i) {
      out.logprobs.push_back(sampling::token_logprob(result.logits.row(i), prompt[first + i + 1]));
    }
    if (chain) chain->observe(result.taps[0], first, prompt);
    first += n;
  }
  if (chain) chain->draft(argmax(out.logits.back()), request.n_drafts, out);
  return out;
}

}  // namespace ft::engine
