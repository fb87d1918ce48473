// A generation pulled to its end, and how it is reported.
#pragma once

#include "foretoken/foretoken.h"
#include "json/json.h"

#include <functional>
#include <string>
#include <vector>

namespace ft::apps {

struct Outcome {
  std::string text;
  std::vector<foretoken::Token> token_ids;
  std::vector<foretoken::TokenLogprobs> logprobs;
  foretoken::Completion completion;
};

/// Called with each event before it is added to the outcome; may be empty.
using EventObserver = std::function<void(const foretoken::Event&)>;

/// Pulls until the Completion. Throws foretoken::Error if the request failed.
Outcome collect(foretoken::TokenStream& stream, const EventObserver& observer);

/// The document of `generate --json`, see docs/cli.md.
std::string outcome_json(const Outcome& outcome,
                         const foretoken::ModelInfo& model,
                         bool with_logprobs);

/// A few lines for people: prompt, generation, speculation; with --verbose more.
std::string statistics_text(const Outcome& outcome,
                            const foretoken::ModelInfo& model,
                            bool is_verbose);

}  // namespace ft::apps
