#include "text/tokenizer.h"

#include "base/error.h"
#include "text/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ft::text {

using Kind = Vocabulary::Kind;

namespace {

bool is_added(Kind kind) noexcept {
  return kind == Kind::kAdded || kind == Kind::kSpecial;
}

/// One call of encode(): collects plain text until an added token or the end, then splits and
/// merges it.
class Encoder {
 public:
  explicit Encoder(const TokenizerParts& parts)
      : parts_(parts), merger_(parts.merges, parts.byte_tokens.data()) {}

  void plain(std::string_view text) { plain_ += text; }

  void trusted(std::string_view text) {
    std::size_t at = 0;
    for (const AddedTokenMatcher::Match& match : parts_.added_matcher.find_all(text)) {
      plain(text.substr(at, match.begin - at));
      flush();
      ids_.push_back(match.id);
      at = match.end;
    }
    plain(text.substr(at));
  }

  std::vector<Token> finish() {
    flush();
    return std::move(ids_);
  }

 private:
  void flush() {
    if (plain_.empty()) return;
    if (plain_.size() >= UINT32_MAX) {
      fail("tokenizer: {} bytes of text between two added tokens, expected less than 4 GiB",
           plain_.size());
    }
    ends_.assign(1, plain_.size());
    for (const auto& splitter : parts_.splitters) {
      finer_ends_.clear();
      std::size_t begin = 0;
      for (const std::size_t end : ends_) {
        splitter->split(plain_, begin, end, finer_ends_);
        begin = end;
      }
      ends_.swap(finer_ends_);
    }
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      piece(std::string_view(plain_).substr(begin, end - begin));
      begin = end;
    }
    plain_.clear();
  }

  void piece(std::string_view bytes) {
    if (parts_.ignores_merges) {
      const std::optional<Token> id = parts_.vocabulary.find(bytes);
      // An added token is matched by the added-token table or not at all.
      if (id && !is_added(parts_.vocabulary.kind(*id))) {
        ids_.push_back(*id);
        return;
      }
    }
    merger_.merge(bytes, ids_);
  }

  const TokenizerParts& parts_;
  BpeMerger merger_;
  std::string plain_;
  std::vector<std::size_t> ends_;
  std::vector<std::size_t> finer_ends_;
  std::vector<Token> ids_;
};

}  // namespace

struct Tokenizer::Impl {
  TokenizerParts parts;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json,
                               const std::shared_ptr<const Clock>& clock) {
  return Tokenizer(std::make_unique<const Impl>(Impl{parse_tokenizer_json(tokenizer_json, clock)}));
}

std::size_t Tokenizer::n_tokens() const noexcept {
  return impl_->parts.vocabulary.n_tokens();
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  Encoder encoder(impl_->parts);
  encoder.trusted(text);
  return encoder.finish();
}

std::vector<Token> Tokenizer::encode(std::span<const TextSegment> segments) const {
  Encoder encoder(impl_->parts);
  std::string run;  // adjacent trusted segments; empty segments separate nothing
  for (const TextSegment& segment : segments) {
    if (segment.text.empty()) continue;
    if (segment.is_trusted) {
      run += segment.text;
      continue;
    }
    encoder.trusted(run);
    run.clear();
    encoder.plain(segment.text);
  }
  encoder.trusted(run);
  return encoder.finish();
}

std::string_view Tokenizer::token_bytes(Token id) const {
  FT_CHECK(id >= 0 && static_cast<std::size_t>(id) < n_tokens());
  return impl_->parts.vocabulary.bytes(id);
}

bool Tokenizer::is_special(Token id) const noexcept {
  return impl_->parts.vocabulary.kind(id) == Kind::kSpecial;
}

bool Tokenizer::has_token(Token id) const noexcept {
  return impl_->parts.vocabulary.kind(id) != Kind::kAbsent;
}

std::optional<Token> Tokenizer::added_token(std::string_view content) const {
  const std::vector<Token>& ids = impl_->parts.added_tokens;
  const Vocabulary& vocabulary = impl_->parts.vocabulary;
  const auto found =
      std::lower_bound(ids.begin(), ids.end(), content, [&](Token id, std::string_view text) {
        return vocabulary.bytes(id) < text;
      });
  if (found == ids.end() || vocabulary.bytes(*found) != content) return std::nullopt;
  return *found;
}

std::string Tokenizer::decode(TokenSpan ids) const {
  std::string bytes;
  for (const Token id : ids) {
    if (!has_token(id)) {
      fail("tokenizer: id {} is not in the vocabulary, whose ids are below {}", id, n_tokens());
    }
    bytes += impl_->parts.vocabulary.bytes(id);
  }
  return bytes;
}

}  // namespace ft::text
