#include "apps/prove_requests.h"

#include "base/random.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kWrongEvery = 5;  // tokens between two that are replaced

ProofRequest with_penalties(foretoken::GenerationRequest request) {
  request.sampling.repeat_penalty = 1.1F;
  request.sampling.presence_penalty = 0.3F;
  request.sampling.frequency_penalty = 0.2F;
  return {" --repeat-penalty 1.1 --presence-penalty 0.3 --frequency-penalty 0.2",
          std::move(request)};
}

// Makes the first token less likely, and some other one of the output likelier.
ProofRequest with_bias(foretoken::GenerationRequest request,
                       const std::vector<foretoken::Token>& ids) {
  const foretoken::Token down = ids.front();
  const foretoken::Token up = ids[ids.size() / 2];
  request.sampling.logit_bias.emplace_back(down, -4.0F);
  request.sampling.logit_bias.emplace_back(up, 1.5F);
  return {fmt::format(" --logit-bias {}:-4 --logit-bias {}:1.5", down, up), std::move(request)};
}

// The middle of the text, a few bytes around a place that is no border of characters in particular:
// with tokens of several bytes it seldom coincides with one.
std::optional<std::string> middle_of(const std::string& text) {
  constexpr std::size_t kBytes = 6;
  const auto is_inside = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  if (text.size() < 2 * kBytes) return std::nullopt;
  std::size_t begin = text.size() / 2;
  while (is_inside(begin)) ++begin;
  std::size_t end = begin + kBytes;
  while (is_inside(end)) ++end;
  return end < text.size() ? std::optional(text.substr(begin, end - begin)) : std::nullopt;
}

}  // namespace

std::vector<ProofRequest> altered_requests(const foretoken::GenerationRequest& request,
                                           const Outcome& base) {
  std::vector<ProofRequest> out;
  foretoken::GenerationRequest other = request;
  other.max_tokens = 1;
  out.push_back({" --max-tokens 1", other});
  out.push_back(with_penalties(request));
  if (!base.token_ids.empty()) out.push_back(with_bias(request, base.token_ids));
  if (const std::optional<std::string> stop = middle_of(base.text)) {
    other = request;
    other.stop.push_back(*stop);
    out.push_back({fmt::format(" --stop '{}'", *stop), std::move(other)});
  }
  const float temperature = request.sampling.temperature.value_or(1.0F) > 0 ? 0.0F : 1.0F;
  other = request;
  other.sampling.temperature = temperature;
  out.push_back({fmt::format(" --temperature {}", temperature), std::move(other)});
  return out;
}

std::vector<ProofRequest> predicted_requests(const foretoken::GenerationRequest& request,
                                             const Outcome& base,
                                             const foretoken::ModelInfo& model) {
  const std::vector<foretoken::Token>& ids = base.token_ids;
  const auto random_id = [&](std::size_t i) {
    return static_cast<foretoken::Token>(noise_bits(kSeed, NoisePurpose::kDraft, i, 0) %
                                         model.n_vocab);
  };
  std::vector<foretoken::Token> wrong = ids;
  std::vector<foretoken::Token> ended = ids;
  std::vector<foretoken::Token> random(std::max<std::size_t>(ids.size(), 1));
  for (std::size_t i = 0; i < random.size(); ++i) random[i] = random_id(i);
  for (std::size_t i = kWrongEvery; i < ids.size(); i += kWrongEvery) {
    wrong[i] = random_id(i);
    ended[i] = model.eos_tokens.front();
  }
  std::vector<ProofRequest> out;
  const auto add = [&](std::string_view what, std::vector<foretoken::Token> prediction) {
    if (prediction.empty()) return;
    foretoken::GenerationRequest other = request;
    other.prediction = std::move(prediction);
    out.push_back({fmt::format(" --prediction ({})", what), std::move(other)});
  };
  add("the text itself", ids);
  add("the text with wrong tokens", std::move(wrong));
  add("the text with ends in between", std::move(ended));
  add("random tokens", std::move(random));
  return out;
}

}  // namespace ft::apps
