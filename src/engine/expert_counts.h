// What a store counted between two moments, in the words of docs/cli.md.
#pragma once

#include "experts/expert_store.h"
#include "foretoken/request.h"

namespace ft::engine {

foretoken::ExpertStatistics experts_between(const experts::ExpertStats& start,
                                            const experts::ExpertStats& end);

}  // namespace ft::engine
