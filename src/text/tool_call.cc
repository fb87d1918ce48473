#include "text/tool_call.h"

#include "base/error.h"

#include <algorithm>
#include <string_view>

namespace ft::text {

namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

/// White space, or the escape \n that models write in its place.
bool is_gap(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = text.starts_with("\\n") ? 2 : 1;
    if (n == 1 && kSpace.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(n);
  }
  return true;
}

class CallReader {
 public:
  explicit CallReader(std::span<const ReplyPiece> pieces) : pieces_(pieces) {}

  ToolCallReading read() {
    ToolCallReading out;
    if (read_call() && !has_twin_keys()) {
      out.call = std::move(call_);
    } else if (!is_in_value_ && is_mark(at_, ReplyMark::kCall)) {
      out.restart = at_;
    }
    return out;
  }

 private:
  bool read_call() {
    at_ = 1;
    call_.name = trimmed(take_text());
    if (call_.name.empty()) return false;
    while (!is_mark(at_, ReplyMark::kEndCall)) {
      if (!read_argument()) return false;
    }
    return true;
  }

  bool read_argument() {
    if (!take_mark(ReplyMark::kKey)) return false;
    const std::string_view key = trimmed(take_text());
    if (key.empty() || !take_mark(ReplyMark::kEndKey)) return false;
    if (!is_gap(take_text()) || !take_mark(ReplyMark::kValue)) return false;
    is_in_value_ = true;
    const std::size_t end = next_border();
    const std::size_t close = last_close_before(end);
    if (close == end) return false;
    const bool has_gap = close + 1 < end;
    if (has_gap && (close + 2 != end || !is_text(close + 1) || !is_gap(pieces_[close + 1].text)))
      return false;
    is_in_value_ = false;
    std::string value;
    for (; at_ < close; ++at_) value += pieces_[at_].text;
    call_.arguments.emplace_back(key, std::move(value));
    at_ = end;
    return true;
  }

  bool is_mark(std::size_t i, ReplyMark mark) const { return pieces_[i].mark == mark; }
  bool is_text(std::size_t i) const { return !pieces_[i].mark; }

  // at_ never passes the end: the last piece is a mark that nothing here steps over.
  std::string_view take_text() {
    if (!is_text(at_)) return {};
    return pieces_[at_++].text;
  }
  bool take_mark(ReplyMark mark) {
    if (!is_mark(at_, mark)) return false;
    ++at_;
    return true;
  }

  std::size_t next_border() const {
    std::size_t i = at_;
    while (!is_mark(i, ReplyMark::kKey) && !is_mark(i, ReplyMark::kEndCall)) ++i;
    return i;
  }
  /// `end` if there is none.
  std::size_t last_close_before(std::size_t end) const {
    for (std::size_t i = end; i > at_; --i) {
      if (is_mark(i - 1, ReplyMark::kEndValue)) return i - 1;
    }
    return end;
  }

  bool has_twin_keys() const {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : call_.arguments) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
  }

  std::span<const ReplyPiece> pieces_;
  std::size_t at_ = 0;
  bool is_in_value_ = false;
  ToolCall call_;
};

}  // namespace

ToolCallReading read_tool_call(std::span<const ReplyPiece> pieces) {
  FT_CHECK(pieces.size() >= 2 && pieces.front().mark == ReplyMark::kCall &&
           pieces.back().mark == ReplyMark::kEndCall);
  return CallReader(pieces).read();
}

}  // namespace ft::text
