// The line editor of a chat: libedit. Refuses nothing; control characters of pasted text are
// dropped.
#include "apps/line_source.h"
#include "base/error.h"
#include "text/utf8.h"

#include <clocale>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>
#include <utility>

namespace ft::apps {
namespace {

constexpr int kHistorySize = 1000;
constexpr wchar_t kInterruptKey = 3;  // Ctrl-C
constexpr std::wstring_view kPasteEnd = L"\033[201~";

struct EndEditor {
  void operator()(EditLine* editor) const noexcept { el_end(editor); }
};
struct EndHistory {
  void operator()(HistoryW* history) const noexcept { history_wend(history); }
};

std::string to_utf8(std::wstring_view text) {
  std::string out;
  for (const wchar_t wide : text) {
    const auto c = static_cast<char32_t>(wide);
    const auto low = [c](unsigned shift) {
      return static_cast<char>(0x80U | ((c >> shift) & 0x3FU));
    };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += {static_cast<char>(0xC0U | (c >> 6U)), low(0)};
    } else if (c < 0x10000) {
      out += {static_cast<char>(0xE0U | (c >> 12U)), low(6), low(0)};
    } else {
      out += {static_cast<char>(0xF0U | (c >> 18U)), low(12), low(6), low(0)};
    }
  }
  return out;
}

std::wstring to_wide(std::string_view text) {
  std::wstring out;
  for (std::size_t at = 0; at < text.size();) {
    const text::Utf8Step step = text::decode_utf8(text, at);
    out += static_cast<wchar_t>(step.code_point);
    at += step.n_bytes;
  }
  return out;
}

void use_utf8_locale() {
  const char* locale = std::setlocale(LC_CTYPE, "");
  if (locale == nullptr || std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

class LineEditor final : public LineSource {
 public:
  explicit LineEditor(int interrupt_fd) : interrupt_fd_(interrupt_fd) {
    use_utf8_locale();
    editor_.reset(el_init("foretoken", stdin, stdout, stderr));
    history_.reset(history_winit());
    if (!editor_ || !history_)
      throw IoError("cannot use this terminal; end input by a pipe instead");
    HistEventW event{};
    history_w(history_.get(), &event, H_SETSIZE, kHistorySize);
    history_w(history_.get(), &event, H_SETUNIQUE, 1);
    EditLine* editor = editor_.get();
    el_wset(editor, EL_CLIENTDATA, this);
    el_wset(editor, EL_PROMPT, &LineEditor::prompt);
    el_wset(editor, EL_EDITOR, L"emacs");
    el_wset(editor, EL_SIGNAL, 1);
    el_wset(editor, EL_HIST, history_w, history_.get());
    el_wset(editor, EL_GETCFN, &LineEditor::next_character);
    el_wset(editor, EL_ADDFN, L"ft-interrupt", L"Drop the line", &LineEditor::on_interrupt);
    el_wset(editor, EL_ADDFN, L"ft-paste", L"Insert pasted text", &LineEditor::on_paste);
    el_wset(editor, EL_BIND, L"^C", L"ft-interrupt", nullptr);
    el_wset(editor, EL_BIND, L"\\e[200~", L"ft-paste", nullptr);
    el_wset(editor, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
  }

  LineRead read(std::string_view prompt) override {
    prompt_ = to_wide(prompt);
    is_interrupted_ = false;
    // The editor shows its prompt before it takes over: keys typed in between would be the
    // terminal's.
    el_wset(editor_.get(), EL_PREP_TERM, 1);
    // The terminal then marks where pasted text begins and ends, so that its lines are one input.
    show("\x1b[?2004h");
    int n = 0;
    const wchar_t* line = el_wgets(editor_.get(), &n);
    show("\x1b[?2004l");
    if (line == nullptr || n <= 0) {
      show(is_interrupted_ ? "^C\n" : "\n");
      return {is_interrupted_ ? LineRead::Kind::kInterrupted : LineRead::Kind::kEnd, {}};
    }
    std::wstring_view text(line, static_cast<std::size_t>(n));
    if (text.ends_with(L'\n')) text.remove_suffix(1);
    return {LineRead::Kind::kLine, to_utf8(text)};
  }

  void remember(const std::string& input) override {
    HistEventW event{};
    history_w(history_.get(), &event, H_ENTER, to_wide(input).c_str());
  }

 private:
  static LineEditor& of(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static void show(const char* text) {
    std::fputs(text, stdout);
    std::fflush(stdout);
  }

  static wchar_t* prompt(EditLine* editor) { return of(editor).prompt_.data(); }

  // Called by libedit, through which no exception may pass. 1: a character, 0: the end.
  static int next_character(EditLine* editor, wchar_t* out) noexcept {
    try {
      std::string bytes;
      while (true) {
        if (!wait_for_input(of(editor).interrupt_fd_)) {
          *out = kInterruptKey;
          return 1;
        }
        char byte = 0;
        const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
        if (n <= 0) return 0;
        bytes += byte;
        const text::Utf8Step step = text::decode_utf8(bytes, 0);
        if (step.kind == text::Utf8Step::Kind::kTruncated) continue;
        *out = static_cast<wchar_t>(step.code_point);
        return 1;
      }
    } catch (...) {
      return 0;
    }
  }

  static unsigned char on_interrupt(EditLine* editor, wint_t /*key*/) noexcept {
    of(editor).is_interrupted_ = true;
    return CC_EOF;
  }

  static unsigned char on_paste(EditLine* editor, wint_t /*key*/) noexcept {
    try {
      std::wstring text;
      wchar_t c = 0;
      while (!text.ends_with(kPasteEnd)) {
        if (next_character(editor, &c) != 1) return CC_EOF;
        if (c == kInterruptKey) return on_interrupt(editor, 0);
        text += c;
      }
      text.resize(text.size() - kPasteEnd.size());
      const std::wstring clean = without_controls(text);
      if (!clean.empty()) el_winsertstr(editor, clean.c_str());
      return CC_REFRESH;
    } catch (...) {
      return CC_ERROR;
    }
  }

  // Terminals send pasted line ends as carriage returns. The last one is the user's to type.
  static std::wstring without_controls(std::wstring_view text) {
    std::wstring out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == L'\r') {
        if (i + 1 == text.size() || text[i + 1] != L'\n') out += L'\n';
      } else if (text[i] == L'\n' || text[i] == L'\t' || (text[i] >= 0x20 && text[i] != 0x7F)) {
        out += text[i];
      }
    }
    while (out.ends_with(L'\n')) out.pop_back();
    return out;
  }

  int interrupt_fd_;
  std::wstring prompt_;
  bool is_interrupted_ = false;
  std::unique_ptr<HistoryW, EndHistory> history_;
  std::unique_ptr<EditLine, EndEditor> editor_;
};

}  // namespace

std::unique_ptr<LineSource> make_line_editor(int interrupt_fd) {
  return std::make_unique<LineEditor>(interrupt_fd);
}

}  // namespace ft::apps
