// A reply as it streams, dressed for a terminal: thoughts apart from what is said. Produces
// strings; writing them is the caller's.
#pragma once

#include "foretoken/reply.h"

#include <optional>
#include <string>
#include <string_view>

namespace ft::apps {

struct ReplyStyle {
  bool is_terminal = false;     // controls in the text are made visible
  bool has_colours = false;     // thoughts dimmed
  bool shows_thoughts = false;  // else they are left out
  bool shows_drafts = false;    // accepted drafts in colour
};

/// What to write for each part of a reply: reasoning or content.
class ReplyView {
 public:
  explicit ReplyView(ReplyStyle style) noexcept : style_(style) {}

  std::string push(const foretoken::ReplyDelta& delta, bool was_drafted);
  bool has_begun() const noexcept { return kind_.has_value(); }
  /// Colours off and the line ended.
  std::string end();

 private:
  std::string_view colour_of(foretoken::ReplyDelta::Kind kind, bool was_drafted) const noexcept;

  ReplyStyle style_;
  std::optional<foretoken::ReplyDelta::Kind> kind_;  // of the last text
  std::string_view colour_;
  bool ends_line_ = true;
};

}  // namespace ft::apps
