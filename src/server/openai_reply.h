// Replies of /v1/chat/completions and /v1/completions, whole and in chunks.
#pragma once

#include "foretoken/request.h"
#include "json/json.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

enum class ReplyKind { kChat, kCompletion };

/// The exact bytes of a token.
using TokenText = std::function<std::string(foretoken::Token)>;

struct ReplyIdentity {
  ReplyKind kind = ReplyKind::kChat;
  std::string id;            // "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
};

/// Tokens that are shown: those of the text.
struct ReplyTokens {
  std::string text;
  std::vector<foretoken::TokenLogprobs> logprobs;
};

struct Choice {
  std::size_t index = 0;
  ReplyTokens tokens;
  foretoken::Completion completion;
};

/// The whole reply. `has_logprobs`: as the request wants. Usage and timings are those of all
/// choices; the prompt of several choices counts once per prompt.
std::string reply_json(const ReplyIdentity& identity,
                       std::span<const Choice> choices,
                       std::size_t choices_per_prompt,
                       bool has_logprobs,
                       const TokenText& token_text);

// Parts of a stream, each the JSON of one event.
std::string role_chunk(const ReplyIdentity& identity, std::size_t index);
/// `text_offset`: bytes of the choice's text before this chunk.
std::string text_chunk(const ReplyIdentity& identity,
                       std::size_t index,
                       const ReplyTokens& tokens,
                       std::size_t text_offset,
                       bool has_logprobs,
                       const TokenText& token_text);
std::string finish_chunk(const ReplyIdentity& identity,
                         std::size_t index,
                         const foretoken::Completion& completion);
/// The chunk with no choices that stream_options.include_usage asks for.
std::string usage_chunk(const ReplyIdentity& identity,
                        std::span<const Choice> choices,
                        std::size_t choices_per_prompt);

}  // namespace ft::server
