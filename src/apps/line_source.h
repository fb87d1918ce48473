// Where a chat's lines come from: a terminal with a line editor, or anything else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ft::apps {

struct LineRead {
  enum class Kind : std::uint8_t {
    kLine,         ///< without its newline; of an editor it may hold newlines (pasted text)
    kEnd,          ///< end of file, Ctrl-D
    kInterrupted,  ///< Ctrl-C; what was typed is dropped
  };
  Kind kind = Kind::kEnd;
  std::string text;
};

class LineSource {
 public:
  LineSource() = default;
  virtual ~LineSource() = default;
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;
  LineSource(LineSource&&) = delete;
  LineSource& operator=(LineSource&&) = delete;

  /// Waits for a line. Throws IoError, InvalidInput for a line of more than 64 MiB.
  virtual LineRead read(std::string_view prompt) = 0;
  /// An input to be found in the history again.
  virtual void remember(const std::string& input) = 0;
};

/// Lines of standard input as they come: no prompt, no history. interrupt_fd becomes readable when
/// the wait is to end; whoever made it clears it.
std::unique_ptr<LineSource> make_plain_lines(int interrupt_fd);

/// A line editor on the terminal of standard input and output, with history of this run. Sets the
/// locale of the process for characters (LC_CTYPE), which its widths come from: the user's, or
/// C.UTF-8 if that is not UTF-8. One at a time.
std::unique_ptr<LineSource> make_line_editor(int interrupt_fd);

/// Waits until standard input or interrupt_fd is readable. Returns false if it is the latter (alone
/// or not). Throws IoError.
bool wait_for_input(int interrupt_fd);

}  // namespace ft::apps
