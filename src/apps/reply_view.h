// A reply as it streams: parted into what was thought and what is said, and dressed for a terminal.
// Produces strings; writing them is the caller's.
#pragma once

#include "foretoken/request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ft::apps {

/// Parts the text of a reply at the token that ends the thinking. Text that merely reads like it
/// ends nothing.
class ThinkingSplitter {
 public:
  enum class Part : std::uint8_t { kThought, kAnswer };
  struct Piece {
    Part part = Part::kAnswer;
    std::string text;
  };

  /// think_end: nullopt if the model has no such token. starts_inside: the prompt ended with the
  /// mark that begins a thought.
  ThinkingSplitter(std::optional<foretoken::Token> think_end, bool starts_inside) noexcept
      : think_end_(think_end), is_inside_(starts_inside && think_end.has_value()) {}

  /// The text that became final with a token, in order; without the mark.
  Piece push(foretoken::Token token, std::string_view text);
  /// Text that became final at the end.
  Piece finish(std::string_view text);

 private:
  std::optional<foretoken::Token> think_end_;
  bool is_inside_;
  std::string_view mark_left_;  // of the mark, held back with a possible stop string
};

inline constexpr std::string_view kThinkMark = "<think>";
inline constexpr std::string_view kThinkEndMark = "</think>";

struct ReplyStyle {
  bool is_terminal = false;     // controls in the text are made visible
  bool has_colours = false;     // thoughts dimmed
  bool shows_thoughts = false;  // else they are left out
  bool shows_drafts = false;    // accepted drafts in colour
};

/// What to write for each piece.
class ReplyView {
 public:
  explicit ReplyView(ReplyStyle style) noexcept : style_(style) {}

  std::string push(const ThinkingSplitter::Piece& piece, bool was_drafted);
  bool has_begun() const noexcept { return part_.has_value(); }
  /// Colours off and the line ended.
  std::string end();

 private:
  std::string_view colour_of(ThinkingSplitter::Part part, bool was_drafted) const noexcept;

  ReplyStyle style_;
  std::optional<ThinkingSplitter::Part> part_;  // of the last text
  std::string_view colour_;
  bool ends_line_ = true;
};

}  // namespace ft::apps
