// What a store counted between two moments, in the words of docs/cli.md.
#pragma once

#include "experts/expert_store.h"
#include "foretoken/result.h"
#include "json/json.h"

namespace ft::engine {

foretoken::ExpertStatistics experts_between(const experts::ExpertStats& start,
                                            const experts::ExpertStats& end);

/// The `experts` object of docs/cli.md.
void write_experts(json::Writer& out, const foretoken::ExpertStatistics& experts);

}  // namespace ft::engine
