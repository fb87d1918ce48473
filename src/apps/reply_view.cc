#include "apps/reply_view.h"

#include "apps/terminal_text.h"

#include <algorithm>

namespace ft::apps {
namespace {

using Kind = foretoken::ReplyDelta::Kind;

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kDimGreen = "\x1b[2;32m";

}  // namespace

std::string_view ReplyView::colour_of(Kind kind, bool was_drafted) const noexcept {
  if (!style_.has_colours) return {};
  const bool is_marked = was_drafted && style_.shows_drafts;
  if (kind == Kind::kReasoning) return is_marked ? kDimGreen : kDim;
  return is_marked ? kGreen : std::string_view();
}

std::string ReplyView::push(const foretoken::ReplyDelta& delta, bool was_drafted) {
  if (delta.kind == Kind::kReasoning && !style_.shows_thoughts) return {};
  std::string_view text = delta.text;
  std::string out;
  if (kind_ != delta.kind) {
    // Whoever reads at a terminal wants neither the blanks around the mark nor thought and answer
    // in one line.
    if (style_.is_terminal)
      text.remove_prefix(std::min(text.find_first_not_of("\n "), text.size()));
    if (text.empty()) return {};
    if (kind_) {
      if (!colour_.empty()) out += kReset;
      colour_ = {};
      out += ends_line_ ? "\n" : "\n\n";
    }
    kind_ = delta.kind;
  }
  if (text.empty()) return out;
  const std::string_view colour = colour_of(delta.kind, was_drafted);
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
  if (!ends_line_ || !kind_) out += '\n';
  return out;
}

}  // namespace ft::apps
