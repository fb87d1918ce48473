// Where two outcomes of one request part.
#pragma once

#include "apps/outcome.h"
#include "json/json.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ft::apps {

struct Difference {
  enum class What { kId, kLogprob, kText, kFinishReason };
  /// An id, a log-probability, or text; nothing where one side has ended.
  using Value = std::variant<std::monostate, foretoken::Token, float, std::string>;

  std::size_t index = 0;  // of the token; of the byte for text
  What what = What::kId;
  Value base;
  Value variant;
};

/// The first difference of variant from base: the lowest token index with another id,
/// log-probability (bit for bit) or best list; then text, then the reason of the end. nullopt:
/// identical.
std::optional<Difference> first_difference(const Outcome& base, const Outcome& variant);

/// "id" and so on, as in docs/cli.md.
std::string_view to_string(Difference::What what) noexcept;
std::string to_text(const Difference& difference);
/// The member `first_difference` of prove --json, null if there is none.
void write_difference(json::Writer& out, const std::optional<Difference>& difference);

}  // namespace ft::apps
