#include "text/reply_parser.h"

#include <algorithm>
#include <utility>

namespace ft::text {

using Kind = ReplyDelta::Kind;

namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_reasoning_mark(ReplyMark mark) {
  return mark == ReplyMark::kThink || mark == ReplyMark::kEndThink;
}

}  // namespace

ReplyParser::ReplyParser(const Tokenizer& tokenizer,
                         const ReplyMarkup& markup,
                         TokenSpan prompt,
                         std::optional<ToolSchemas> tools)
    : tokenizer_(&tokenizer), markup_(&markup), tools_(std::move(tools)) {
  expected_.emplace(tokenizer, std::vector<std::string>{});
  replay(markup.opened_reply(prompt));
}

/// The prompt's end goes through the same rules as the reply; of what it leaves, only the state is
/// kept.
void ReplyParser::replay(TokenSpan opened_reply) {
  Detokenizer detokenizer(*tokenizer_, {});
  for (const Token id : opened_reply) push({&id, 1}, detokenizer.push(id));
  expected_.emplace(*tokenizer_, std::vector<std::string>{});
  pending_marks_.clear();
  n_ids_ = n_expected_ = n_taken_ = 0;
  n_calls_ = n_reasoning_tokens_ = reasoning_begin_ = 0;
  blank_.clear();
  is_reply_blank_ = true;
}

std::vector<ReplyDelta> ReplyParser::push(TokenSpan ids, std::string_view text) {
  for (const Token id : ids) {
    n_expected_ += expected_->push(id).size();
    if (const std::optional<ReplyMark> mark = markup_->find(id)) {
      const std::size_t size = tokenizer_->is_special(id) ? 0 : tokenizer_->token_bytes(id).size();
      pending_marks_.push_back({*mark, id, n_expected_ - size, n_expected_, n_ids_});
    }
    ++n_ids_;
  }
  take_text(text);
  return std::exchange(deltas_, {});
}

std::vector<ReplyDelta> ReplyParser::finish() {
  if (!pending_marks_.empty() && n_taken_ > pending_marks_.front().begin) {
    // A stop string cut a mark's text: what is left of it is no mark.
    const PendingMark& cut = pending_marks_.front();
    on_text(tokenizer_->token_bytes(cut.id).substr(0, n_taken_ - cut.begin));
  }
  pending_marks_.clear();
  if (section_ == Section::kCall) emit_pieces(0, pieces_.size());
  if (is_blank_ && is_reply_blank_) {
    is_blank_ = false;
    on_text(std::exchange(blank_, {}));
  }
  return std::exchange(deltas_, {});
}

std::size_t ReplyParser::n_reasoning_tokens() const noexcept {
  return n_reasoning_tokens_ + (section_ == Section::kReasoning ? n_ids_ - reasoning_begin_ : 0);
}

/// Cuts the text at the marks, each of which counts once all of its own text is there.
void ReplyParser::take_text(std::string_view text) {
  const auto take_up_to = [&](std::size_t end) {
    const std::size_t n_bytes = std::min(text.size(), end - std::min(end, n_taken_));
    const std::string_view taken = text.substr(0, n_bytes);
    text.remove_prefix(n_bytes);
    n_taken_ += n_bytes;
    return taken;
  };
  while (!pending_marks_.empty()) {
    const PendingMark pending = pending_marks_.front();
    on_text(take_up_to(pending.begin));
    take_up_to(pending.end);
    if (n_taken_ < pending.end) return;
    pending_marks_.pop_front();
    on_mark(pending);
  }
  n_taken_ += text.size();
  on_text(text);
}

void ReplyParser::on_text(std::string_view text) {
  if (text.empty()) return;
  if (section_ == Section::kCall) {
    if (pieces_.back().mark) pieces_.emplace_back();
    pieces_.back().text += text;
    return;
  }
  const Kind kind = section_ == Section::kReasoning ? Kind::kReasoning : Kind::kContent;
  if (is_blank_) {
    if (text.find_first_not_of(kSpace) == std::string_view::npos) {
      blank_ += text;
      return;
    }
    is_blank_ = false;
    emit(kind, std::exchange(blank_, {}));
  }
  emit(kind, text);
}

void ReplyParser::on_mark(const PendingMark& pending) {
  const std::string_view text = tokenizer_->token_bytes(pending.id);
  if (section_ == Section::kCall) {
    pieces_.push_back({pending.mark, std::string(text)});
    if (pending.mark == ReplyMark::kEndCall) end_call();
    return;
  }
  if (!is_structure(pending.mark)) {
    on_text(text);
  } else if (pending.mark == ReplyMark::kCall) {
    section_ = Section::kCall;  // the white space before it is dropped only if it is a call
    pieces_.push_back({pending.mark, std::string(text)});
  } else {
    enter(pending.mark == ReplyMark::kThink ? Section::kReasoning : Section::kContent,
          pending.n_ids_before);
  }
}

/// Whether a mark outside of calls is one, not text.
bool ReplyParser::is_structure(ReplyMark mark) const noexcept {
  if (is_reasoning_mark(mark)) {
    return is_blank_ || (section_ == Section::kReasoning && mark == ReplyMark::kEndThink);
  }
  return section_ == Section::kContent && tools_ && mark == ReplyMark::kCall;
}

void ReplyParser::enter(Section section, std::size_t n_ids_before) {
  if (section_ == Section::kReasoning) n_reasoning_tokens_ += n_ids_before - reasoning_begin_;
  section_ = section;
  reasoning_begin_ = n_ids_before;
  is_blank_ = true;
  blank_.clear();
}

void ReplyParser::end_call() {
  std::size_t begin = 0;
  for (;;) {
    const ToolCallReading reading = read_tool_call(std::span(pieces_).subspan(begin));
    if (reading.call && is_name(reading.call->name)) {
      if (begin > 0) emit_pieces(0, begin);
      pieces_.clear();
      section_ = Section::kContent;
      is_blank_ = true;
      blank_.clear();
      emit_call(*reading.call);
      return;
    }
    if (!reading.restart) break;
    begin += *reading.restart;
  }
  emit_pieces(0, pieces_.size());
}

/// Gives out the open call's pieces as content. With all of them the call is over.
void ReplyParser::emit_pieces(std::size_t begin, std::size_t end) {
  std::string text = std::exchange(blank_, {});
  for (std::size_t i = begin; i < end; ++i) text += pieces_[i].text;
  if (end == pieces_.size()) pieces_.clear();
  section_ = Section::kContent;
  is_blank_ = false;
  emit(Kind::kContent, text);
}

void ReplyParser::emit_call(const ToolCall& call) {
  emit(Kind::kToolName, call.name);
  std::string part = "{";
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto& [key, value] = call.arguments[i];
    json::Writer quoted_key;
    quoted_key.value(std::string_view(key));
    if (i > 0) {
      emit(Kind::kToolArguments, part);
      part = ",";
    }
    part += quoted_key.text() + ":" + tools_->argument_json(call.name, key, value);
  }
  emit(Kind::kToolArguments, part + "}");
  ++n_calls_;
}

void ReplyParser::emit(Kind kind, std::string_view text) {
  if (text.empty()) return;
  is_reply_blank_ = false;
  const bool is_plain = kind == Kind::kReasoning || kind == Kind::kContent;
  if (is_plain && !deltas_.empty() && deltas_.back().kind == kind) {
    deltas_.back().text += text;
    return;
  }
  deltas_.push_back({kind, std::string(text), is_plain ? 0 : n_calls_});
}

/// Other names than the tools' are passed on if a function could have them: a client answers them
/// better than a person who reads markup.
bool ReplyParser::is_name(std::string_view name) const noexcept {
  constexpr std::size_t kMaxNameBytes = 128;
  if (tools_->has_tool(name)) return true;
  return name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
         });
}

}  // namespace ft::text
