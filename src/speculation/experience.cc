#include "speculation/experience.h"

namespace ft::speculation {

Experience Experience::faded() const {
  Experience out = *this;
  for (Source& source : out.sources) {
    source.alone = source.alone.faded();
    for (AcceptanceHistory& history : source.offered) history = history.faded();
    source.as_tail = source.as_tail.faded();
    source.draft_cost = source.draft_cost.young();
  }
  out.rest_cost = rest_cost.young();
  return out;
}

}  // namespace ft::speculation
