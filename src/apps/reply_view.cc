#include "apps/reply_view.h"

#include "apps/terminal_text.h"

#include <algorithm>

namespace ft::apps {
namespace {

using Part = ThinkingSplitter::Part;

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kDimGreen = "\x1b[2;32m";

// The longest start of the mark that `text` ends with.
std::size_t mark_at_end(std::string_view text) {
  for (std::size_t n = std::min(text.size(), kThinkEndMark.size()); n > 0; --n) {
    if (text.ends_with(kThinkEndMark.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

ThinkingSplitter::Piece ThinkingSplitter::push(foretoken::Token token, std::string_view text) {
  if (!is_inside_ || token != think_end_) return finish(text);
  is_inside_ = false;
  const std::size_t n = mark_at_end(text);
  mark_left_ = kThinkEndMark.substr(n);
  return {Part::kThought, std::string(text.substr(0, text.size() - n))};
}

ThinkingSplitter::Piece ThinkingSplitter::finish(std::string_view text) {
  if (is_inside_) return {Part::kThought, std::string(text)};
  while (!mark_left_.empty() && !text.empty() && text.front() == mark_left_.front()) {
    text.remove_prefix(1);
    mark_left_.remove_prefix(1);
  }
  if (!text.empty()) mark_left_ = {};
  return {Part::kAnswer, std::string(text)};
}

std::string_view ReplyView::colour_of(Part part, bool was_drafted) const noexcept {
  if (!style_.has_colours) return {};
  const bool is_marked = was_drafted && style_.shows_drafts;
  if (part == Part::kThought) return is_marked ? kDimGreen : kDim;
  return is_marked ? kGreen : std::string_view();
}

std::string ReplyView::push(const ThinkingSplitter::Piece& piece, bool was_drafted) {
  if (piece.part == Part::kThought && !style_.shows_thoughts) return {};
  std::string_view text = piece.text;
  std::string out;
  if (part_ != piece.part) {
    // Whoever reads at a terminal wants neither the blanks around the mark nor thought and answer
    // in one line.
    if (style_.is_terminal)
      text.remove_prefix(std::min(text.find_first_not_of("\n "), text.size()));
    if (text.empty()) return {};
    if (part_) {
      if (!colour_.empty()) out += kReset;
      colour_ = {};
      out += ends_line_ ? "\n" : "\n\n";
    }
    part_ = piece.part;
  }
  if (text.empty()) return out;
  const std::string_view colour = colour_of(piece.part, was_drafted);
  if (colour != colour_) {
    if (!colour_.empty()) out += kReset;
    out += colour;
    colour_ = colour;
  }
  out += style_.is_terminal ? for_terminal(text) : std::string(text);
  ends_line_ = text.ends_with('\n');
  return out;
}

std::string ReplyView::end() {
  std::string out(colour_.empty() ? std::string_view() : kReset);
  colour_ = {};
  if (!ends_line_ || !part_) out += '\n';
  return out;
}

}  // namespace ft::apps
