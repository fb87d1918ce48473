#include "engine/evaluation.h"

#include "base/error.h"
#include "cache/kv_cache.h"
#include "models/draft_head.h"
#include "models/model.h"
#include "sampling/sampler.h"
#include "speculation/head_history.h"

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

/// Hidden rows of the prompt's positions first ... A head that starts cold sees the last one alone.
void observe(speculation::HeadHistory& history,
             const models::Model& model,
             TokenSpan prompt,
             std::size_t first,
             ConstMatrix hidden) {
  const std::size_t begin = model.draft_head()->wants_prompt() ? first : prompt.size() - 1;
  if (begin >= first + hidden.n_rows) return;
  hidden.data += (begin - first) * hidden.stride;
  hidden.n_rows -= begin - first;
  history.observe(prompt, begin, hidden);
}

/// A greedy chain on top of the prompt whose rows `history` has seen; `logits` are the prompt's
/// last.
void draft(speculation::HeadHistory& history,
           TokenSpan prompt,
           std::size_t n_drafts,
           std::span<const float> logits,
           foretoken::Evaluation& out) {
  sampling::SamplingParams params;
  params.temperature = 0;
  sampling::Sampler greedy(params, logits.size());
  std::vector<Token> tokens(prompt.begin(), prompt.end());
  tokens.push_back(greedy.pick(logits, {tokens, prompt.size()}));
  history.observe(tokens, prompt.size(), {});
  models::IndexSets sets;
  models::DraftStep step = history.start_chain(sets);
  while (true) {
    if (!step.is_finite) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("model: draft {} of the next-token (MTP) layer is not finite; its "
                              "weights may be damaged",
                              out.drafts.size() + 1));
    }
    out.draft_logits.push_back(to_vector(step.logits));
    tokens.push_back(greedy.pick(step.logits, {tokens, prompt.size()}));
    out.drafts.push_back(tokens.back());
    if (out.drafts.size() == n_drafts) return;
    step = history.continue_chain(tokens.back(), sets);
  }
}

std::optional<speculation::HeadHistory> open_history(const EngineCore& core,
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
  return std::make_optional<speculation::HeadHistory>(
      *head, core.model().config().d_model, core.parts().cache_options());
}

}  // namespace

foretoken::Evaluation evaluate(EngineCore& core,
                               const foretoken::EvaluationRequest& request,
                               const std::stop_token& stop) {
  const models::Model& model = core.model();
  const TokenSpan prompt = request.tokens;
  core.prefixes().make_room();
  std::optional<speculation::HeadHistory> history = open_history(core, request);
  const std::unique_ptr<cache::KvCache> cache = model.new_cache(core.parts().cache_options());
  const std::array<LayerIndex, 1> final_norm = {static_cast<LayerIndex>(model.config().n_layers)};
  const std::span<const LayerIndex> taps = history ? final_norm : std::span<const LayerIndex>();

  std::size_t chunk = core.parts().prefill_chunk;
  // Memory is planned for so many rows of logits.
  const std::size_t most_logits = core.parts().n_logit_rows;
  if ((request.all_positions || request.logprobs) && most_logits > 0) {
    chunk = std::min(chunk, most_logits);
  }
  foretoken::Evaluation out;
  for (std::size_t first = 0; first < prompt.size();) {
    core.check_memory();
    const std::size_t n = std::min(chunk, prompt.size() - first);
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
    if (history) observe(*history, model, prompt, first, result.taps[0]);
    first += n;
  }
  if (history) history->set_stop(stop);
  if (history) draft(*history, prompt, request.n_drafts, out.logits.back(), out);
  return out;
}

}  // namespace ft::engine
