// A conversation as a script has it, through pipes, and as a person has it, at a terminal.
#include "base/error.h"
#include "io/file.h"
#include "json/json.h"
#include "program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <poll.h>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::vector<std::string> kGreedy = {"chat", "--temperature", "0", "--thinking", "off"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::path(::testing::TempDir()) / fmt::format("talk_{}", getpid()))
                  .string()) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  const std::string& path() const { return path_; }
  json::Value read() const { return json::parse(io::read_text(path_, 1 << 20), "saved chat"); }

 private:
  std::string path_;
};

// A reply as standard output has it.
std::string lines_of(const std::string& reply) {
  return reply.ends_with('\n') ? reply : reply + "\n";
}

std::vector<std::string> contents_of(const json::Value& chat) {
  std::vector<std::string> out;
  for (const json::Value& message : chat.find("messages")->as_array("messages")) {
    out.push_back(message.find("content")->as_string("content"));
  }
  return out;
}

/// The program at a terminal of its own, with somebody who types.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {FT_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables = {"TERM=xterm", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"};
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    winsize size{};
    size.ws_row = 40;
    size.ws_col = 200;
    int fd = -1;
    process_ = forkpty(&fd, nullptr, nullptr, &size);
    if (process_ < 0) throw IoError("cannot make a terminal");
    if (process_ == 0) {
      execve(FT_PROGRAM, argv.data(), environment.data());
      _exit(127);
    }
    terminal_ = io::UniqueFd(fd);
  }
  ~Terminal() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  Terminal(Terminal&&) = delete;
  Terminal& operator=(Terminal&&) = delete;

  void type(std::string_view keys) const {
    ASSERT_EQ(::write(terminal_.get(), keys.data(), keys.size()),
              static_cast<ssize_t>(keys.size()));
  }
  /// Waits until the screen shows `text` behind what earlier calls found. Returns what it showed up
  /// to there; fails the test after a minute.
  std::string wait_for(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::size_t at = screen_.find(text, seen_);
    while (at == std::string::npos && std::chrono::steady_clock::now() < deadline && read_more()) {
      at = screen_.find(text, seen_);
    }
    EXPECT_NE(at, std::string::npos) << "waited for " << text << " in " << screen_.substr(seen_);
    const std::size_t end = at == std::string::npos ? screen_.size() : at + text.size();
    const std::size_t start = std::exchange(seen_, end);
    return screen_.substr(start, end - start);
  }
  /// The prompt for a line, when the editor is ready for keys.
  std::string wait_for_prompt() { return wait_for("> "); }
  int finish() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < deadline && read_more()) {
    }
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& screen() const { return screen_; }

 private:
  // Returns false when the program is gone.
  bool read_more() {
    pollfd end{terminal_.get(), POLLIN, 0};
    if (poll(&end, 1, 1000) <= 0) return true;
    std::array<char, 65536> block{};
    const ssize_t n = ::read(terminal_.get(), block.data(), block.size());
    if (n <= 0) return false;
    screen_.append(block.data(), static_cast<std::size_t>(n));
    return true;
  }

  pid_t process_ = -1;
  io::UniqueFd terminal_;
  std::string screen_;
  std::size_t seen_ = 0;
};

// --- through pipes ---

TEST(ChatThroughAPipe, SaysWhatTheTemplateAndGenerateSay) {
  const ProgramResult chat =
      run_program(with(kGreedy, {"--quiet"}), "Tell me a story about a wolf.\r\n/stats\n");
  EXPECT_EQ(chat.status, 0) << chat.err;
  const ProgramResult plain =
      run_program({"generate", "--temperature", "0", "--quiet", "--prompt", std::string(kStory)});
  EXPECT_EQ(chat.out, plain.out + "\n");
  EXPECT_THAT(chat.err, StartsWith("prompt: "));
  EXPECT_THAT(chat.err, HasSubstr("tokens per forward"));
  EXPECT_THAT(chat.err, HasSubstr("memory: "));
  EXPECT_THAT(chat.out + chat.err, Not(HasSubstr("\x1b")));
}

TEST(ChatThroughAPipe, RemembersSavesAndLoads) {
  const TemporaryFile file;
  const std::string save = "/save " + file.path() + "\n";
  const ProgramResult first = run_program(
      with(kGreedy, {"--system", "Be brief.", "-n", "20"}),
      "What is the capital \\\nof France?\n\"\"\"\nAnd\n/quit?\n\"\"\"\n/regen\n" + save);
  EXPECT_EQ(first.status, 0) << first.err;
  const json::Value saved = file.read();
  const std::vector<std::string> contents = contents_of(saved);
  ASSERT_EQ(contents.size(), 5U);
  EXPECT_EQ(contents[0], "Be brief.");
  EXPECT_EQ(contents[1], "What is the capital \nof France?");
  EXPECT_EQ(contents[3], "And\n/quit?");
  EXPECT_EQ(first.out, lines_of(contents[2]) + lines_of(contents[4]) + lines_of(contents[4]));

  // The saved file is a chat request; going on with it is going on with the conversation.
  EXPECT_EQ(run_program({"tokenize", "--chat-json", file.path()}).status, 0);
  const ProgramResult second = run_program({"chat", "--temperature", "0", "-n", "20"},
                                           "/load " + file.path() + "\n/regen\n" + save);
  EXPECT_EQ(second.out, lines_of(contents[4])) << second.err;
  EXPECT_EQ(contents_of(file.read()), contents);
}

TEST(ChatThroughAPipe, ThinksAsideAndKeepsTheThought) {
  const TemporaryFile file;
  const ProgramResult result = run_program({"chat", "--temperature", "0", "-n", "400"},
                                           "What is 2 + 3?\n/save " + file.path() + "\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("think>")));
  const json::Value saved = file.read();
  const auto& messages = saved.find("messages")->as_array("messages");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(result.out, messages[1].find("content")->as_string("content") + "\n");
  const json::Value* reasoning = messages[1].find("reasoning_content");
  ASSERT_NE(reasoning, nullptr);
  EXPECT_NE(reasoning->as_string("reasoning"), "");
}

TEST(ChatThroughAPipe, ComplainsInOneLineAndGoesOn) {
  const ProgramResult result = run_program(
      with(kGreedy, {"-n", "3", "--context", "64"}),
      "/what\n/set top_k x\n/load /nowhere\n" + std::string(400, 'w') +
          " what a long message this is and it goes on and on and on and on and on and on and on "
          "and on and on and on and on and on and on and on and on and on and on and on\nHi\n");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("foretoken: unknown command '/what'"));
  EXPECT_THAT(result.err,
              HasSubstr("foretoken: --top-k: is 'x', expected a whole number of at least 0\n"));
  EXPECT_THAT(result.err, HasSubstr("/nowhere"));
  EXPECT_THAT(result.err, HasSubstr("the context holds 64"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 5) << result.err;  // and [cut]
  EXPECT_THAT(result.err, HasSubstr("[cut after 3 tokens"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
}

TEST(ChatThroughAPipe, RefusesWhatItCannotShow) {
  expect_refused(run_program({"chat", "--logprobs", "2"}), "--logprobs");
  expect_refused(run_program({"chat", "--thinking", "maybe"}), "expected on or off");
  expect_refused(run_program({"chat", "--temperature", "-1"}), "temperature is -1");
}

TEST(ChatThroughAPipe, StopsTheAnswerAlone_WhenItIsInterrupted) {
  Program program(with(kGreedy, {"--ignore-eos", "-n", "4000", "-c", "4096"}),
                  "Tell me a story.\n/set max_tokens 3\nHi\n");
  ASSERT_TRUE(program.wait_for_output(1));
  program.interrupt();
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("[stopped]"));
  EXPECT_THAT(result.err, HasSubstr("[cut after 3 tokens"));
}

// --- at a terminal ---

TEST(ChatAtATerminal, EditsAnswersAndEnds) {
  Terminal terminal(kGreedy);
  EXPECT_THAT(terminal.wait_for_prompt(), HasSubstr("/help lists the commands"));
  terminal.type(
      "What is the capital of Francx\x7f"
      "e?\r");
  terminal.wait_for("Paris");
  terminal.wait_for_prompt();
  terminal.type("/stats\r");
  terminal.wait_for("tokens per forward");
  terminal.wait_for_prompt();
  terminal.type("\x1b[A\x1b[A\r");  // the question again, from the history
  terminal.wait_for("Paris");
  terminal.wait_for_prompt();
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(ChatAtATerminal, StopsTheAnswerAlone_WhenItIsInterrupted) {
  Terminal terminal(with(kGreedy, {"--ignore-eos", "-n", "4000", "-c", "4096"}));
  terminal.wait_for_prompt();
  for (int i = 0; i < 2; ++i) {
    terminal.type("Tell me a story about a wolf.\r");
    terminal.wait_for("wolf.\r\n");
    terminal.wait_for(" the ");  // of the story: the question has none
    terminal.type("\x03");
    terminal.wait_for("[stopped]");
    terminal.wait_for_prompt();
  }
  terminal.type("half a line\x03");
  terminal.wait_for("Ctrl-D or /quit ends");
  terminal.wait_for_prompt();
  terminal.type("\"\"\"\r");
  terminal.wait_for("... ");
  terminal.type("\x03");
  terminal.wait_for_prompt();
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(ChatAtATerminal, TakesPastedLinesAsOneMessage) {
  const TemporaryFile file;
  Terminal terminal(with(kGreedy, {"-n", "1"}));
  terminal.wait_for_prompt();
  terminal.type("\x1b[200~one\r/quit \xC3\xA9\x07\r\x1b[201~\r");
  terminal.wait_for("[cut after 1 tokens");
  terminal.wait_for_prompt();
  terminal.type("/save " + file.path() + "\r");
  terminal.wait_for("saved 2 messages");
  terminal.wait_for_prompt();
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_EQ(contents_of(file.read()).at(0), "one\n/quit \xC3\xA9");
}

TEST(ChatAtATerminal, DimsThoughtsAndColoursAcceptedDrafts) {
  Terminal terminal({"chat",
                     "--temperature",
                     "0",
                     "--show-drafts",
                     "--speculate",
                     "mtp",
                     "--draft-tokens",
                     "3",
                     "-n",
                     "60"});
  terminal.wait_for_prompt();
  terminal.type("What is the capital of France?\r");
  terminal.wait_for("?\r\n");
  const std::string reply = terminal.wait_for_prompt();
  EXPECT_THAT(reply, HasSubstr("\x1b[2m"));
  EXPECT_THAT(reply, HasSubstr("32m"));
  EXPECT_THAT(reply, HasSubstr("\x1b[0m"));
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(ChatAtATerminal, ShowsControlsOfTheModelAsText) {
  const json::Value ids = run_program({"tokenize", "\x1b"}).json();
  const std::vector<Token> escape = to_ids(ids);
  ASSERT_EQ(escape.size(), 1U);
  Terminal terminal(with(kGreedy, {"-n", "3", "--logit-bias", fmt::format("{}:1000", escape[0])}));
  terminal.wait_for_prompt();
  terminal.type("Hi\r");
  terminal.wait_for("\\x1b\\x1b\\x1b");
  terminal.wait_for_prompt();
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_THAT(terminal.screen(), Not(HasSubstr("\x1b\x1b")));
}

}  // namespace
}  // namespace ft::e2e
