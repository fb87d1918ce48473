#include "text/detokenizer.h"

#include "base/error.h"
#include "text/printable.h"
#include "text/utf8.h"

#include <algorithm>
#include <utility>

namespace ft::text {

namespace {

std::vector<std::size_t> prefix_fallbacks(std::string_view text) {
  std::vector<std::size_t> fallbacks(text.size() + 1, 0);
  std::size_t length = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fallbacks[length];
    if (text[i] == text[length]) ++length;
    fallbacks[i + 1] = length;
  }
  return fallbacks;
}

}  // namespace

void Detokenizer::Stop::advance(char byte) noexcept {
  while (n_matched > 0 && text[n_matched] != byte) n_matched = fallbacks[n_matched];
  if (text[n_matched] == byte) ++n_matched;
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::vector<std::string> stop_strings)
    : tokenizer_(&tokenizer) {
  for (std::string& text : stop_strings) {
    if (text.empty()) fail("stop string {} is empty", stops_.size());
    // Half a character would make us hold back the other half.
    if (!is_valid_utf8(text))
      fail("stop string {} is no valid UTF-8: {}", stops_.size(), printable(text));
    std::vector<std::size_t> fallbacks = prefix_fallbacks(text);
    stops_.push_back({std::move(text), std::move(fallbacks), 0});
  }
}

std::string Detokenizer::push(Token id) {
  FT_CHECK(!matched_stop_);
  if (!tokenizer_->has_token(id) || tokenizer_->is_special(id)) return {};
  partial_character_ += tokenizer_->token_bytes(id);
  std::string characters;
  std::size_t at = 0;
  while (at < partial_character_.size()) {
    const Utf8Step step = decode_utf8(partial_character_, at);
    if (step.kind == Utf8Step::Kind::kTruncated) break;
    const bool is_character = step.kind == Utf8Step::Kind::kCharacter;
    characters += is_character ? std::string_view(partial_character_).substr(at, step.n_bytes)
                               : kReplacementUtf8;
    at += step.n_bytes;
  }
  partial_character_.erase(0, at);
  accept(characters);
  std::size_t n_kept = 0;
  for (const Stop& stop : stops_) n_kept = std::max(n_kept, stop.n_matched);
  return release(matched_stop_ ? 0 : n_kept);
}

std::string Detokenizer::finish() {
  // What is left is the beginning of one character: one maximal subpart.
  if (!partial_character_.empty() && !matched_stop_) accept(kReplacementUtf8);
  partial_character_.clear();
  return release(0);
}

/// Appends to the held text, up to the first stop string that gets complete.
void Detokenizer::accept(std::string_view characters) {
  for (const char byte : characters) {
    held_.push_back(byte);
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      Stop& stop = stops_[i];
      stop.advance(byte);
      if (stop.n_matched < stop.text.size()) continue;
      if (!matched_stop_ || stops_[*matched_stop_].text.size() < stop.text.size())
        matched_stop_ = i;
    }
    if (matched_stop_) {
      held_.resize(held_.size() - stops_[*matched_stop_].text.size());
      return;
    }
  }
}

/// Takes out all of the held text but its last `n_kept` bytes.
std::string Detokenizer::release(std::size_t n_kept) {
  std::string text = held_.substr(held_begin_, n_held() - n_kept);
  held_begin_ += text.size();
  // Moving the rest down only now and then keeps a long stop string from costing its length with
  // every token.
  if (2 * held_begin_ >= held_.size()) {
    held_.erase(0, held_begin_);
    held_begin_ = 0;
  }
  return text;
}

}  // namespace ft::text
