// Source `draft` as the registry knows it: a second model is given or it is not, which is not a
// matter of the target. Who has one makes its provider, see draft_model.h.
#include "speculation/draft_model.h"
#include "speculation/source_unit.h"

#include <memory>
#include <string>

namespace ft::speculation {

SourceUnit draft_source_draft() {
  return {.name = kDraftModelSource,
          .obstacle = [](const models::Model&) -> std::string {
            return "no draft model was given; use --draft-model DIR, or leave it out";
          },
          .make = [](const models::Model&) { return std::unique_ptr<DraftProvider>(); }};
}

}  // namespace ft::speculation
