// What tests of whole requests compare.
#pragma once

#include "engine/engine.h"
#include "engine/event_channel.h"
#include "foretoken/request.h"
#include "foretoken/result.h"

#include <variant>
#include <vector>

namespace ft::engine {

struct Reply {
  std::vector<Token> ids;
  std::vector<float> logprobs;
  foretoken::Completion completion;

  bool operator==(const Reply& other) const {
    return ids == other.ids && logprobs == other.logprobs &&
           completion.finish_reason == other.completion.finish_reason;
  }
};

inline void take(const foretoken::Event& event, Reply& reply) {
  if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&event)) {
    reply.ids.insert(reply.ids.end(), tokens->ids.begin(), tokens->ids.end());
    for (const auto& one : tokens->logprobs) reply.logprobs.push_back(one.chosen.logprob);
  } else if (const auto* completion = std::get_if<foretoken::Completion>(&event)) {
    reply.completion = *completion;
  }
}

inline Reply collect(EventChannel& channel) {
  Reply reply;
  while (const auto event = channel.next()) take(*event, reply);
  return reply;
}

inline Reply run_alone(Engine& engine, const foretoken::GenerationRequest& request) {
  return collect(*engine.submit(request));
}

}  // namespace ft::engine
