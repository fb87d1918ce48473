#include "apps/difference.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

namespace ft::apps {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool same(const foretoken::TokenLogprob& a, const foretoken::TokenLogprob& b) {
  return a.id == b.id && same_bits(a.logprob, b.logprob);
}

// The rank at which two lists part: 0 is the chosen token, then the best ones.
std::optional<Difference> logprob_difference(std::size_t index,
                                             const foretoken::TokenLogprobs& base,
                                             const foretoken::TokenLogprobs& variant) {
  const auto differs = [&](const foretoken::TokenLogprob& a, const foretoken::TokenLogprob& b) {
    return Difference{index, Difference::What::kLogprob, a.logprob, b.logprob};
  };
  if (!same(base.chosen, variant.chosen)) return differs(base.chosen, variant.chosen);
  for (std::size_t i = 0; i < std::min(base.top.size(), variant.top.size()); ++i) {
    if (!same(base.top[i], variant.top[i])) return differs(base.top[i], variant.top[i]);
  }
  return std::nullopt;
}

Difference::Value id_at(const Outcome& outcome, std::size_t i) {
  if (i >= outcome.token_ids.size()) return std::monostate();
  return outcome.token_ids[i];
}

std::string to_text(const Difference::Value& value) {
  if (const auto* id = std::get_if<foretoken::Token>(&value)) return fmt::format("{}", *id);
  if (const auto* logprob = std::get_if<float>(&value)) return fmt::format("{}", *logprob);
  if (const auto* text = std::get_if<std::string>(&value)) return in_quotes(*text);
  return "nothing";
}

void write_value(json::Writer& out, const Difference::Value& value) {
  if (const auto* id = std::get_if<foretoken::Token>(&value)) {
    out.value(*id);
  } else if (const auto* logprob = std::get_if<float>(&value)) {
    out.value(*logprob);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out.value(*text);
  } else {
    out.null();
  }
}

std::optional<Difference> token_difference(const Outcome& base, const Outcome& variant) {
  const std::size_t n = std::max(base.token_ids.size(), variant.token_ids.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (id_at(base, i) != id_at(variant, i)) {
      return Difference{i, Difference::What::kId, id_at(base, i), id_at(variant, i)};
    }
    if (i >= base.logprobs.size() || i >= variant.logprobs.size()) continue;
    if (auto found = logprob_difference(i, base.logprobs[i], variant.logprobs[i])) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Difference> first_difference(const Outcome& base, const Outcome& variant) {
  if (auto found = token_difference(base, variant)) return found;
  if (base.text != variant.text) {
    const auto parted =
        std::mismatch(base.text.begin(), base.text.end(), variant.text.begin(), variant.text.end());
    const auto at = static_cast<std::size_t>(parted.first - base.text.begin());
    return Difference{
        at, Difference::What::kText, base.text.substr(at, 32), variant.text.substr(at, 32)};
  }
  const foretoken::Completion& a = base.completion;
  const foretoken::Completion& b = variant.completion;
  if (a.finish_reason != b.finish_reason || a.stop != b.stop) {
    return Difference{base.token_ids.size(),
                      Difference::What::kFinishReason,
                      std::string(foretoken::to_string(a.finish_reason)),
                      std::string(foretoken::to_string(b.finish_reason))};
  }
  return std::nullopt;
}

std::string_view to_string(Difference::What what) noexcept {
  switch (what) {
    case Difference::What::kId:
      return "id";
    case Difference::What::kLogprob:
      return "logprob";
    case Difference::What::kText:
      return "text";
    case Difference::What::kFinishReason:
      return "finish_reason";
  }
  return "";
}

std::string to_text(const Difference& difference) {
  return fmt::format("first difference at {}: {} is {}, with speculation off {}",
                     difference.index,
                     to_string(difference.what),
                     to_text(difference.variant),
                     to_text(difference.base));
}

void write_difference(json::Writer& out, const std::optional<Difference>& difference) {
  if (!difference) {
    out.null();
    return;
  }
  out.begin_object();
  out.member("index", std::uint64_t{difference->index});
  out.member("what", to_string(difference->what));
  write_value(out.key("base"), difference->base);
  write_value(out.key("variant"), difference->variant);
  out.end_object();
}

}  // namespace ft::apps
