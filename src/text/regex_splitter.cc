// Any split pattern, run by PCRE2. Patterns come from files, so the work is bounded three ways:
// backtracking per attempt (PCRE2's match limit), memory (heap limit), and time over all attempts
// of one stretch, because neither limit sees the inner loop of a pattern like `a*b`, which costs
// the whole rest of the text at every place.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/clock.h"
#include "base/error.h"
#include "text/printable.h"
#include "text/regex_pattern.h"
#include "text/splitter.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <pcre2.h>

namespace ft::text {

namespace {

constexpr std::size_t kMaxPatternBytes = std::size_t{64} << 10;
constexpr std::uint32_t kMaxHeapKib = 256 << 10;

struct Pcre2Free {
  void operator()(pcre2_code* p) const noexcept { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const noexcept { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const noexcept { pcre2_match_context_free(p); }
  void operator()(pcre2_compile_context* p) const noexcept { pcre2_compile_context_free(p); }
};
template <typename T>
using Pcre2Ptr = std::unique_ptr<T, Pcre2Free>;

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 160> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  std::string text;
  for (const PCRE2_UCHAR c : buffer) {
    if (c == 0) break;
    text.push_back(static_cast<char>(c));
  }
  return text;
}

/// A stretch in which every invalid subpart has become U+FFFD, and the way back to its own offsets.
class CleanText {
 public:
  explicit CleanText(std::string_view text) : view_(text) {
    if (is_valid_utf8(text)) return;
    std::size_t at = 0;
    while (at < text.size()) {
      const Utf8Step step = decode_utf8(text, at);
      const bool is_character = step.kind == Utf8Step::Kind::kCharacter;
      copy_ += is_character ? text.substr(at, step.n_bytes) : kReplacementUtf8;
      at += step.n_bytes;
      if (!is_character) marks_.emplace_back(copy_.size(), at);
    }
    view_ = copy_;
  }
  ~CleanText() = default;
  CleanText(const CleanText&) = delete;  // view_ may point into copy_
  CleanText& operator=(const CleanText&) = delete;
  CleanText(CleanText&&) = delete;
  CleanText& operator=(CleanText&&) = delete;

  std::string_view view() const noexcept { return view_; }

  /// `offset` lies between characters of view(); calls come in ascending order.
  std::size_t original(std::size_t offset) noexcept {
    while (next_mark_ < marks_.size() && marks_[next_mark_].first <= offset) ++next_mark_;
    if (next_mark_ == 0) return offset;
    const auto& [clean_end, original_end] = marks_[next_mark_ - 1];
    return original_end + (offset - clean_end);
  }

 private:
  std::string_view view_;
  std::string copy_;
  std::vector<std::pair<std::size_t, std::size_t>>
      marks_;  // ends of invalid subparts: in copy_, in the text
  std::size_t next_mark_ = 0;
};

/// Matches one pattern at places of one text, within the bounds of work.
class Matcher {
 public:
  Matcher(const pcre2_code* code,
          std::string_view text,
          std::string_view pattern,
          const Clock& clock)
      : code_(code),
        text_(text),
        pattern_(pattern),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        clock_(clock),
        start_us_(clock.now_us()) {
    if (!data_ || !context_)
      throw ResourceExhausted("tokenizer: no memory to match the split pattern");
    pcre2_set_heap_limit(context_.get(), kMaxHeapKib);
  }

  /// End of the match that begins at `from`; nullopt if there is none.
  std::optional<std::size_t> match_at(std::size_t from) {
    // PCRE2 does not tell what an attempt cost, so the limit starts low: only attempts that meet it
    // can be expensive, and the clock is looked at between them.
    constexpr std::size_t kFirstLimit = 1024;
    // A white-space run of n characters may cost a few backtracks per character; nothing honest
    // costs more.
    const std::size_t last_limit = 100'000 + 64 * text_.size();
    if (++n_attempts_ % 64 == 0) check_time();
    std::uint32_t options = PCRE2_NO_UTF_CHECK;
    for (std::size_t limit = kFirstLimit;;) {
      pcre2_set_match_limit(context_.get(),
                            static_cast<std::uint32_t>(std::min<std::size_t>(limit, UINT32_MAX)));
      const int rc = pcre2_match(code_,
                                 reinterpret_cast<PCRE2_SPTR>(text_.data()),
                                 text_.size(),
                                 from,
                                 options,
                                 data_.get(),
                                 context_.get());
      if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
      if (rc >= 0) return pcre2_get_ovector_pointer(data_.get())[1];
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        options |= PCRE2_NO_JIT;  // the interpreter keeps its stack on the heap
      } else if (rc == PCRE2_ERROR_MATCHLIMIT && limit < last_limit) {
        check_time();
        limit *= 4;
      } else {
        fail(
            "tokenizer: split pattern {} failed at byte {} of {}: {}; the pattern backtracks too "
            "much for this text",
            printable(pattern_),
            from,
            text_.size(),
            error_text(rc));
      }
    }
  }

 private:
  void check_time() const {
    const std::int64_t elapsed_us = clock_.now_us() - start_us_;
    // Over 100 times what the patterns of public models take.
    const auto allowed_us = static_cast<std::int64_t>(5'000'000 + 10 * text_.size());
    if (elapsed_us <= allowed_us) return;
    fail(
        "tokenizer: split pattern {} ran for {} s on {} bytes of text; the pattern takes quadratic "
        "time",
        printable(pattern_),
        elapsed_us / 1'000'000,
        text_.size());
  }

  const pcre2_code* code_;
  std::string_view text_;
  std::string_view pattern_;
  Pcre2Ptr<pcre2_match_data> data_;
  Pcre2Ptr<pcre2_match_context> context_;
  const Clock& clock_;
  std::int64_t start_us_;
  std::size_t n_attempts_ = 0;
};

class RegexSplitter final : public Splitter {
 public:
  RegexSplitter(Pcre2Ptr<pcre2_code> code,
                std::string_view pattern,
                std::shared_ptr<const Clock> clock)
      : code_(std::move(code)), pattern_(pattern), clock_(std::move(clock)) {
    // Without JIT (no executable memory) pcre2_match() interprets: slower, same result.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  void split(std::string_view text,
             std::size_t begin,
             std::size_t end,
             std::vector<std::size_t>& piece_ends) const override {
    CleanText clean(text.substr(begin, end - begin));
    Matcher matcher(code_.get(), clean.view(), pattern_, *clock_);
    const std::size_t size = clean.view().size();
    const auto cut = [&](std::size_t at) { piece_ends.push_back(begin + clean.original(at)); };
    std::size_t from = 0;
    std::size_t piece_begin = 0;
    std::optional<std::size_t> last_match_end;
    while (from < size) {
      const std::optional<std::size_t> match_end = matcher.match_at(from);
      // As in Oniguruma's iteration, an empty match cuts, unless it touches the match before.
      if (!match_end || (*match_end == from && last_match_end == from)) {
        from += decode_utf8(clean.view(), from).n_bytes;
        continue;
      }
      if (from > piece_begin) cut(from);
      if (*match_end > from) cut(*match_end);
      from = piece_begin = *match_end;
      last_match_end = match_end;
    }
    if (piece_begin < size) cut(size);
  }

 private:
  Pcre2Ptr<pcre2_code> code_;
  std::string pattern_;
  std::shared_ptr<const Clock> clock_;
};

std::unique_ptr<const Splitter> compile(std::string_view shown,
                                        std::string_view pattern,
                                        std::uint32_t options,
                                        std::shared_ptr<const Clock> clock) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    fail("tokenizer.json: split pattern has {} bytes, expected 1 to {}",
         pattern.size(),
         kMaxPatternBytes);
  }
  const Pcre2Ptr<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  if (!context) throw ResourceExhausted("tokenizer: no memory to compile the split pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE error_at = 0;
  // Anchored: the splitter tries each place itself, so that it can watch the clock between two of
  // them.
  Pcre2Ptr<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                          pattern.size(),
                                          options | PCRE2_ANCHORED | PCRE2_UTF,
                                          &error,
                                          &error_at,
                                          context.get()));
  if (!code)
    fail("tokenizer.json: split pattern {} is no valid pattern: {}",
         printable(shown),
         error_text(error));
  return std::make_unique<RegexSplitter>(std::move(code), shown, std::move(clock));
}

}  // namespace

std::unique_ptr<const Splitter> make_regex_splitter(std::string_view pattern,
                                                    std::shared_ptr<const Clock> clock) {
  return compile(pattern,
                 to_pcre2_pattern(pattern),
                 PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                 std::move(clock));
}

std::unique_ptr<const Splitter> make_literal_splitter(std::string_view literal,
                                                      std::shared_ptr<const Clock> clock) {
  return compile(literal, literal, PCRE2_LITERAL, std::move(clock));
}

}  // namespace ft::text
