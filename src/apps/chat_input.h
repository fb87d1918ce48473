// From lines to what the user means: messages of several lines, and commands. Knows no terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ft::apps {

/// One whole input.
struct ChatInput {
  std::string text;
  bool may_be_command = true;  // a block and pasted lines never are
};

/// Joins lines to inputs. A line that ends in \ goes on in the next one; a line that begins with
/// """ opens a block that ends with """ at the end of a line.
class InputAssembler {
 public:
  /// Takes a line without its newline (a carriage return at its end is dropped). One with newlines
  /// inside, pasted or recalled from the history, is taken as it is. Returns the input that it
  /// completes.
  std::optional<ChatInput> push(std::string_view line);
  /// The input ends here: what was begun counts as complete.
  std::optional<ChatInput> end();
  /// Drops what was begun.
  void reset();
  /// Whether an input was begun.
  bool is_open() const noexcept { return state_ != State::kIdle; }

 private:
  enum class State : std::uint8_t { kIdle, kContinued, kBlock };

  std::optional<ChatInput> push_block(std::string_view line);
  ChatInput take(bool may_be_command);

  State state_ = State::kIdle;
  std::string text_;
  bool is_first_of_block_ = false;
};

enum class ChatVerb : std::uint8_t {
  kHelp,
  kSet,
  kStats,
  kSave,
  kLoad,
  kRegen,
  kClear,
  kSystem,
  kQuit
};

struct ChatCommand {
  ChatVerb verb = ChatVerb::kHelp;
  std::string argument;  // without blanks around it
};

/// The command of an input that begins with one slash; nullopt for a message. Throws InvalidInput
/// for a command that does not exist, lacks its argument or takes none.
std::optional<ChatCommand> parse_command(const ChatInput& input);
/// The message of an input that is no command: "//x" stands for "/x".
std::string message_of(ChatInput input);
/// What /help shows.
std::string chat_help();

}  // namespace ft::apps
