// A model's text side as its folder holds it: tokenizer.json and the chat template.
#pragma once

#include "base/clock.h"
#include "foretoken/foretoken.h"
#include "text/tokenizer.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ft::engine {

/// Immutable; safe to share between threads.
class ModelText {
 public:
  /// `path`: a model folder or a file in one. Throws InvalidInput if the folder or its
  /// tokenizer.json is missing or wrong.
  static ModelText open(const std::filesystem::path& path,
                        const std::shared_ptr<const Clock>& clock);
  /// Whether the folder has a tokenizer.json at all.
  static bool exists(const std::filesystem::path& path);

  const text::Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  /// See foretoken::Tokenizer::encode_chat.
  foretoken::ChatPrompt encode_chat(std::string_view request_json) const;
  /// The bytes of a sequence. Throws InvalidInput for ids outside the vocabulary.
  std::string decode(TokenSpan ids) const { return tokenizer_.decode(ids); }

 private:
  ModelText(std::filesystem::path folder, text::Tokenizer tokenizer)
      : folder_(std::move(folder)), tokenizer_(std::move(tokenizer)) {}

  std::filesystem::path folder_;
  text::Tokenizer tokenizer_;
};

}  // namespace ft::engine
