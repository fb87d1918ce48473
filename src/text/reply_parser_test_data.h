// Tests only: replies over a vocabulary of bytes and markup, and what a parser makes of them.
#pragma once

#include "json/json.h"
#include "text/detokenizer.h"
#include "text/reply_parser.h"
#include "text/tokenizer_test_data.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text {

/// Ids 0..255 are the bytes, then the marks in the order of ReplyMark.
inline constexpr Token kFirstMark = 256;
inline constexpr Token kThinkToken = kFirstMark;
inline constexpr Token kEndThinkToken = kFirstMark + 1;
inline constexpr Token kCallToken = kFirstMark + 2;
inline constexpr Token kEndCallToken = kFirstMark + 3;
inline constexpr Token kKeyToken = kFirstMark + 4;
inline constexpr Token kEndKeyToken = kFirstMark + 5;
inline constexpr Token kValueToken = kFirstMark + 6;
inline constexpr Token kEndValueToken = kFirstMark + 7;
inline constexpr Token kAssistantToken = kFirstMark + 8;
inline constexpr Token kUserToken = kFirstMark + 9;
inline constexpr Token kEndOfText = kFirstMark + 10;
inline constexpr Token kUnknownToken = kFirstMark + 99;  // beyond the vocabulary

inline std::vector<TokenizerFile::Added> reply_tokens() {
  return {{"<think>", false},
          {"</think>", false},
          {"<tool_call>", false},
          {"</tool_call>", false},
          {"<arg_key>", false},
          {"</arg_key>", false},
          {"<arg_value>", false},
          {"</arg_value>", false},
          {"<|assistant|>"},
          {"<|user|>"},
          {"<|endoftext|>"}};
}

inline const Tokenizer& reply_tokenizer() {
  static const Tokenizer tokenizer = tokenizer_of(TokenizerFile{.added = reply_tokens()}.text());
  return tokenizer;
}

inline const ReplyMarkup& reply_markup() {
  static const ReplyMarkup markup(reply_tokenizer());
  return markup;
}

/// The bytes of a text, markup spelled out: no marks in it.
inline std::vector<Token> spelled(std::string_view text) {
  std::vector<Token> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

/// A reply with its marks.
inline std::vector<Token> reply(std::string_view text) {
  return reply_tokenizer().encode(text);
}

inline const std::vector<Token>& content_prompt() {
  static const std::vector<Token> ids = reply("<|user|>u<|assistant|><think></think>");
  return ids;
}
inline const std::vector<Token>& reasoning_prompt() {
  static const std::vector<Token> ids = reply("<|user|>u<|assistant|><think>");
  return ids;
}

inline ToolSchemas weather_tools() {
  return ToolSchemas::from_json(json::parse(R"([
      {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                       "units": {"type": ["string", "null"]}, "options": {"type": "object"}}}}},
      {"name": "write", "input_schema": {"type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}}])",
                                            "tools"));
}

/// Adjacent deltas of one kind and call as one: what does not depend on how a reply was cut.
inline std::vector<ReplyDelta> merged(const std::vector<ReplyDelta>& deltas) {
  std::vector<ReplyDelta> out;
  for (const ReplyDelta& delta : deltas) {
    const bool continues = !out.empty() && out.back().kind == delta.kind &&
                           out.back().call_index == delta.call_index &&
                           delta.kind != ReplyDelta::Kind::kToolName;
    if (continues) {
      out.back().text += delta.text;
    } else {
      out.push_back(delta);
    }
  }
  return out;
}

inline void append(std::vector<ReplyDelta>& to, const std::vector<ReplyDelta>& deltas) {
  to.insert(to.end(), deltas.begin(), deltas.end());
}

/// One line per merged delta: "reasoning: ...", "content: ...", "name 0: ...", "arguments 0: ...".
inline std::vector<std::string> described(const std::vector<ReplyDelta>& deltas) {
  std::vector<std::string> lines;
  for (const ReplyDelta& delta : merged(deltas)) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        lines.push_back("reasoning: " + delta.text);
        break;
      case ReplyDelta::Kind::kContent:
        lines.push_back("content: " + delta.text);
        break;
      case ReplyDelta::Kind::kToolName:
        lines.push_back("name " + std::to_string(delta.call_index) + ": " + delta.text);
        break;
      case ReplyDelta::Kind::kToolArguments:
        lines.push_back("arguments " + std::to_string(delta.call_index) + ": " + delta.text);
        break;
    }
  }
  return lines;
}

/// A request, its reply and its stop strings.
struct ReplyCase {
  std::vector<Token> ids{};
  std::vector<Token> prompt = content_prompt();
  std::optional<ToolSchemas> tools = weather_tools();
  std::vector<std::string> stops{};
};

struct ParsedReply {
  std::vector<ReplyDelta> deltas;
  std::size_t n_calls = 0;
  std::size_t n_reasoning_tokens = 0;
  std::size_t n_tokens = 0;  // up to a stop string
  std::string text;
};

/// Parses as the engine delivers: `n_ids(i)` tokens in push i (0: only text), of the text that is
/// final `n_late(i)` bytes only with a later push.
template <typename Ids, typename Late>
ParsedReply parse_in_pieces(const Tokenizer& tokenizer,
                            const ReplyMarkup& markup,
                            const ReplyCase& request,
                            Ids n_ids,
                            Late n_late) {
  ReplyParser parser(tokenizer, markup, request.prompt, request.tools);
  Detokenizer detokenizer(tokenizer, request.stops);
  ParsedReply out;
  std::size_t at = 0;
  std::size_t n_given = 0;
  for (std::size_t i = 0; at < request.ids.size() && !detokenizer.matched_stop(); ++i) {
    const std::size_t begin = at;
    const std::size_t end = std::min(at + n_ids(i), request.ids.size());
    while (at < end && !detokenizer.matched_stop()) out.text += detokenizer.push(request.ids[at++]);
    const std::size_t n_held = std::min(n_late(i), out.text.size() - n_given);
    const std::string text = out.text.substr(n_given, out.text.size() - n_given - n_held);
    n_given += text.size();
    append(out.deltas, parser.push(TokenSpan(request.ids).subspan(begin, at - begin), text));
  }
  out.text += detokenizer.finish();
  append(out.deltas, parser.push({}, std::string_view(out.text).substr(n_given)));
  append(out.deltas, parser.finish());
  out.n_calls = parser.n_calls();
  out.n_reasoning_tokens = parser.n_reasoning_tokens();
  out.n_tokens = at;
  return out;
}

inline ParsedReply parse_token_by_token(const Tokenizer& tokenizer,
                                        const ReplyMarkup& markup,
                                        const ReplyCase& request) {
  return parse_in_pieces(
      tokenizer,
      markup,
      request,
      [](std::size_t) { return std::size_t{1}; },
      [](std::size_t) { return std::size_t{0}; });
}

inline ParsedReply parse_at_once(const Tokenizer& tokenizer,
                                 const ReplyMarkup& markup,
                                 const ReplyCase& request) {
  return parse_in_pieces(
      tokenizer,
      markup,
      request,
      [&](std::size_t) { return request.ids.size(); },
      [](std::size_t) { return std::size_t{0}; });
}

}  // namespace ft::text
