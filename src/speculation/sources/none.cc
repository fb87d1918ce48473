// Source `none`: drafts nothing. Plain decoding is the round with this source.
#include "speculation/draft_source.h"
#include "speculation/source_unit.h"

#include <memory>

namespace ft::speculation {
namespace {

constexpr std::string_view kName = "none";

class NoneSource final : public DraftSource {
 public:
  std::string_view name() const noexcept override { return kName; }
  void observe(const Committed& /*committed*/) override {}
  Draft propose(const DraftRequest& /*request*/, std::stop_token /*stop*/) override { return {}; }
};

class NoneProvider final : public DraftProvider {
 public:
  std::unique_ptr<DraftSource> open(const SourceContext& /*context*/) const override {
    return std::make_unique<NoneSource>();
  }
};

}  // namespace

SourceUnit draft_source_none() {
  return {.name = kName,
          .obstacle = [](const models::Model&) { return std::string(); },
          .make = [](const models::Model&) -> std::unique_ptr<DraftProvider> {
            return std::make_unique<NoneProvider>();
          }};
}

}  // namespace ft::speculation
