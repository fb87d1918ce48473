#include "apps/chat_input.h"

#include "base/error.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::string_view kBlockMark = "\"\"\"";

enum class Argument : std::uint8_t { kNone, kOptional, kRequired };

struct CommandRow {
  std::string_view name;
  ChatVerb verb;
  Argument argument;
  std::string_view argument_name;
  std::string_view help;
};

constexpr std::array<CommandRow, 9> kCommands = {{
    {"/help", ChatVerb::kHelp, Argument::kNone, "", "this list"},
    {"/set",
     ChatVerb::kSet,
     Argument::kOptional,
     "[KEY VALUE]",
     "change a setting; without KEY, show all; VALUE default: as at the start"},
    {"/stats",
     ChatVerb::kStats,
     Argument::kNone,
     "",
     "speeds, tokens per forward, accepted drafts and memory of the last reply"},
    {"/regen", ChatVerb::kRegen, Argument::kNone, "", "answer the last message again"},
    {"/system",
     ChatVerb::kSystem,
     Argument::kOptional,
     "[TEXT]",
     "system message from now on; without TEXT, none"},
    {"/clear",
     ChatVerb::kClear,
     Argument::kNone,
     "",
     "forget the messages, keep the system message"},
    {"/save", ChatVerb::kSave, Argument::kRequired, "FILE", "write the conversation as JSON"},
    {"/load", ChatVerb::kLoad, Argument::kRequired, "FILE", "go on with a saved conversation"},
    {"/quit", ChatVerb::kQuit, Argument::kNone, "", "end, as Ctrl-D does"},
}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::optional<ChatInput> InputAssembler::push(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_several_lines = line.find('\n') != std::string_view::npos;
  if (state_ == State::kBlock) return push_block(line);
  if (state_ == State::kIdle) {
    if (is_several_lines) {
      text_ = line;
      return take(false);
    }
    if (line.starts_with(kBlockMark)) {
      state_ = State::kBlock;
      is_first_of_block_ = true;
      line.remove_prefix(kBlockMark.size());
      if (line.empty()) return std::nullopt;
      return push_block(line);
    }
  }
  if (line.ends_with('\\') && !is_several_lines) {
    text_ += line.substr(0, line.size() - 1);
    text_ += '\n';
    state_ = State::kContinued;
    return std::nullopt;
  }
  text_ += line;
  return take(true);
}

std::optional<ChatInput> InputAssembler::push_block(std::string_view line) {
  if (!is_first_of_block_) text_ += '\n';
  is_first_of_block_ = false;
  if (!line.ends_with(kBlockMark)) {
    text_ += line;
    return std::nullopt;
  }
  line.remove_suffix(kBlockMark.size());
  if (line.empty() && text_.ends_with('\n')) {
    text_.pop_back();  // the mark stood on a line of its own
  } else {
    text_ += line;
  }
  return take(false);
}

std::optional<ChatInput> InputAssembler::end() {
  if (!is_open()) return std::nullopt;
  return take(state_ == State::kContinued);
}

void InputAssembler::reset() {
  text_.clear();
  state_ = State::kIdle;
}

ChatInput InputAssembler::take(bool may_be_command) {
  ChatInput out{std::move(text_), may_be_command};
  reset();
  return out;
}

std::optional<ChatCommand> parse_command(const ChatInput& input) {
  if (!input.may_be_command || !input.text.starts_with('/') || input.text.starts_with("//")) {
    return std::nullopt;
  }
  const std::string_view text = input.text;
  const std::size_t name_end = text.find_first_of(" \t\n");
  const std::string_view name = text.substr(0, name_end);
  const std::string_view argument =
      name_end == std::string_view::npos ? std::string_view() : trimmed(text.substr(name_end));
  for (const CommandRow& row : kCommands) {
    if (row.name != name) continue;
    if (row.argument == Argument::kNone && !argument.empty()) {
      fail("{} is followed by {}, expected nothing", name, in_quotes(argument));
    }
    if (row.argument == Argument::kRequired && argument.empty()) {
      fail("{} needs a {}", name, row.argument_name);
    }
    return ChatCommand{row.verb, std::string(argument)};
  }
  fail("unknown command {}; /help lists the commands, // begins a message with a slash",
       in_quotes(name));
}

std::string message_of(ChatInput input) {
  if (input.may_be_command && input.text.starts_with("//")) input.text.erase(0, 1);
  return std::move(input.text);
}

std::string chat_help() {
  std::string out;
  for (const CommandRow& row : kCommands) {
    out += fmt::format("{:<18} {}\n", fmt::format("{} {}", row.name, row.argument_name), row.help);
  }
  out +=
      "A line that ends in \\ goes on in the next one; \"\"\" begins and ends a message of several "
      "lines; // begins a message with a slash.\n"
      "Ctrl-C stops the answer or drops the line, Ctrl-D ends.\n";
  return out;
}

}  // namespace ft::apps
