// What `prove` asks besides the request as given: the same request under every rule that can end or
// bend a generation, and drafts that mean no good.
#pragma once

#include "apps/outcome.h"
#include "foretoken/foretoken.h"

#include <string>
#include <vector>

namespace ft::apps {

/// `name` says in the options' words what differs, with a blank before it; empty: nothing.
struct ProofRequest {
  std::string name;
  foretoken::GenerationRequest request;
};

/// The request with one token to generate, with penalties, with biased ids, with a stop string that
/// lies across two tokens, and sampled if it was greedy, else greedy. `base`: what the request
/// gave.
std::vector<ProofRequest> altered_requests(const foretoken::GenerationRequest& request,
                                           const Outcome& base);

/// The request with predictions, for source `prediction`: what it will say, that with wrong ids in
/// between, with end-of-text ids in between, and ids drawn at random.
std::vector<ProofRequest> predicted_requests(const foretoken::GenerationRequest& request,
                                             const Outcome& base,
                                             const foretoken::ModelInfo& model);

}  // namespace ft::apps
